// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"slices"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

var terminationMessagePolicy = Transform{
	Name:    "termination-message-policy",
	Does:    "Sets the termination message policy FallbackToLogsOnError on containers.",
	Why:     "The pod's status, and the data that support collects, then contain the reason for a crash even if the log is lost.",
	Profile: only(extractor.OpenShift),
	Apply: eachContainer(func(container map[string]any) {
		container["terminationMessagePolicy"] = "FallbackToLogsOnError"
	}),
}

var priorityClass = Transform{
	Name:    "priority-class",
	Does:    "Sets the priority class system-cluster-critical on pods without one.",
	Why:     "A full node evicts pods without a priority first, but a cluster that is short of nodes needs its providers to add some.",
	Profile: only(extractor.OpenShift),
	Apply: eachTemplate(func(template map[string]any) {
		object.SetDefault(object.EnsureMap(template, "spec"), "priorityClassName", "system-cluster-critical")
	}),
}

var pullPolicy = Transform{
	Name: "pull-policy",
	Does: "Sets the image pull policy IfNotPresent.",
	Why:  "An image that is referenced by digest never changes, and a node must be able to restart while the registry is unavailable.",
	Apply: eachContainer(func(container map[string]any) {
		container["imagePullPolicy"] = "IfNotPresent"
	}),
}

// requiredSCC runs after workloadAnnotations: that transform only adds a missing annotation.
var requiredSCC = Transform{
	Name:    "required-scc",
	Does:    "Selects the security context constraints nonroot-v2 instead of restricted-v2 for pods that set user or group IDs.",
	Why:     "restricted-v2 assigns IDs from a range of the namespace, and rejects a pod that sets others. A pod that sets UID 0 stays as it is: nonroot-v2 rejects it too.",
	Profile: only(extractor.OpenShift),
	Apply: eachTemplate(func(template map[string]any) {
		annotations := object.MapAt(template, "metadata", "annotations")
		if annotations[object.RequiredSCC] == "restricted-v2" && sccFor(template) == "nonroot-v2" && !slices.ContainsFunc(usersOf(template), isRoot) {
			annotations[object.RequiredSCC] = "nonroot-v2"
		}
	}),
}

// sccFor returns the security context constraints for pods: restricted-v2 rejects IDs outside the range of the namespace.
func sccFor(template map[string]any) string {
	pod := object.MapAt(template, "spec", "securityContext")
	if pod["fsGroup"] != nil || pod["supplementalGroups"] != nil || len(usersOf(template)) > 0 {
		return "nonroot-v2"
	}
	return "restricted-v2"
}

func isRoot(user any) bool { return user == int64(0) || user == 0 || user == float64(0) }

// usersOf returns the user IDs that a pod and its containers set.
func usersOf(template map[string]any) (users []any) {
	for _, holder := range append(object.ContainersOf(object.MapAt(template, "spec")), object.MapAt(template, "spec")) {
		if user := object.MapAt(holder, "securityContext")["runAsUser"]; user != nil {
			users = append(users, user)
		}
	}
	return users
}

var resourceRequests = Transform{
	Name:    "resource-requests",
	Does:    "Replaces the requests of containers by 10m CPU and 50Mi memory, and removes limits.",
	Why:     "The scheduler must know the requests of the platform. With a limit, the kernel kills or throttles a platform component even if the node has free resources.",
	Profile: only(extractor.OpenShift),
	Apply: eachContainer(func(container map[string]any) {
		resources := object.EnsureMap(container, "resources")
		delete(resources, "limits")
		resources["requests"] = map[string]any{"cpu": "10m", "memory": "50Mi"}
	}),
}

var workloadAnnotations = Transform{
	Name:    "workload-annotations",
	Does:    "Annotates pods as management workload for CPU partitioning, and selects the security context constraints restricted-v2, or nonroot-v2 for pods that set user or group IDs.",
	Why:     "Without the annotation, a node with partitioned CPUs runs the provider on the CPUs of the user's workload. Without selected constraints, a pod can be admitted under constraints that an administrator adds to the cluster, and then fail at its next start.",
	Profile: only(extractor.OpenShift),
	Apply: eachTemplate(func(template map[string]any) {
		annotations := object.EnsureMap(template, "metadata", "annotations")
		object.SetDefault(annotations, "target.workload.openshift.io/management", `{"effect": "PreferredDuringScheduling"}`)
		object.SetDefault(annotations, object.RequiredSCC, sccFor(template))
	}),
}
