// SPDX-License-Identifier: Apache-2.0

package build

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What OpenShift's conventions ask of every workload of the platform
// (https://github.com/openshift/enhancements, CONVENTIONS.md). What a provider has
// said itself stays, except limits.

var workloadAnnotations = Transform{
	Name: "workload-annotations",
	Does: "Marks pods as management workload for CPU partitioning, and has them admitted under the restricted-v2 security context constraints.",
	Why:  "Without the mark a node with partitioned CPUs runs the provider on the CPUs of the user's workload. Without the named constraints a pod can be admitted under others that somebody adds to the cluster, and then fail at its next start.",
	Apply: eachObject(func(o *unstructured.Unstructured) {
		if template := podTemplate(o); template != nil {
			annotations := ensureMap(template, "metadata", "annotations")
			setDefault(annotations, "target.workload.openshift.io/management", `{"effect": "PreferredDuringScheduling"}`)
			setDefault(annotations, "openshift.io/required-scc", "restricted-v2")
		}
	}),
}

var priorityClass = Transform{
	Name: "priority-class",
	Does: "Gives pods without a priority class system-cluster-critical.",
	Why:  "A full node evicts pods without a priority first, and a cluster that is short of nodes needs its providers most.",
	Apply: eachObject(func(o *unstructured.Unstructured) {
		if template := podTemplate(o); template != nil {
			setDefault(ensureMap(template, "spec"), "priorityClassName", "system-cluster-critical")
		}
	}),
}

var terminationMessagePolicy = Transform{
	Name: "termination-message-policy",
	Does: "Has containers end with the last of their log as message (FallbackToLogsOnError).",
	Why:  "The reason for a crash then stands in the pod's status and in what support collects, also when the log is gone.",
	Apply: eachContainer(func(container map[string]any) {
		container["terminationMessagePolicy"] = "FallbackToLogsOnError"
	}),
}

var resourceRequests = Transform{
	Name: "resource-requests",
	Does: "Has every container request CPU and memory (10m and 50Mi where nothing is said) and removes limits.",
	Why:  "The scheduler must know what the platform itself needs. A limit has the kernel stop or slow down a platform component although the node has room.",
	Apply: eachContainer(func(container map[string]any) {
		resources := ensureMap(container, "resources")
		delete(resources, "limits")
		requests := ensureMap(resources, "requests")
		setDefault(requests, "cpu", "10m")
		setDefault(requests, "memory", "50Mi")
	}),
}

var pullPolicy = Transform{
	Name: "pull-policy",
	Does: "Pulls images only where they are missing (IfNotPresent).",
	Why:  "An image that is named by digest never changes, and a node must be able to restart without a registry.",
	Apply: eachContainer(func(container map[string]any) {
		container["imagePullPolicy"] = "IfNotPresent"
	}),
}

func setDefault(object map[string]any, field string, value any) {
	if _, set := object[field]; !set {
		object[field] = value
	}
}

func eachContainer(edit func(container map[string]any)) func([]*unstructured.Unstructured, GenerateOptions) ([]*unstructured.Unstructured, error) {
	return eachObject(func(o *unstructured.Unstructured) {
		for _, container := range containersOf(o) {
			edit(container)
		}
	})
}
