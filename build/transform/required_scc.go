// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// requiredSCC runs after workloadAnnotations: that transform only adds a missing annotation.
var requiredSCC = Transform{
	Name:    "required-scc",
	Does:    "Selects the security context constraints nonroot-v2 instead of restricted-v2 for pods that set user or group IDs.",
	Why:     "restricted-v2 assigns IDs from a range of the namespace, and rejects a pod that sets others. A pod that sets UID 0 stays as it is: nonroot-v2 rejects it too.",
	Profile: only(extractor.OpenShift),
	Apply: eachObject(func(o *unstructured.Unstructured) {
		template := object.PodTemplate(o)
		if template == nil {
			return
		}
		annotations := object.MapAt(template, "metadata", "annotations")
		if annotations[object.RequiredSCC] == "restricted-v2" && sccFor(o, template) == "nonroot-v2" && !runsAsRoot(o, template) {
			annotations[object.RequiredSCC] = "nonroot-v2"
		}
	}),
}

// sccFor returns the security context constraints for pods: restricted-v2 rejects IDs outside the range of the namespace.
func sccFor(o *unstructured.Unstructured, template map[string]any) string {
	pod := object.MapAt(template, "spec", "securityContext")
	if pod["fsGroup"] != nil || pod["supplementalGroups"] != nil || len(usersOf(o, template)) > 0 {
		return "nonroot-v2"
	}
	return "restricted-v2"
}

func runsAsRoot(o *unstructured.Unstructured, template map[string]any) bool {
	for _, user := range usersOf(o, template) {
		if user == int64(0) || user == 0 || user == float64(0) {
			return true
		}
	}
	return false
}

// usersOf returns the user IDs that a pod and its containers set.
func usersOf(o *unstructured.Unstructured, template map[string]any) (users []any) {
	contexts := []map[string]any{object.MapAt(template, "spec", "securityContext")}
	for _, container := range object.Containers(o) {
		contexts = append(contexts, object.MapAt(container, "securityContext"))
	}
	for _, context := range contexts {
		if user := context["runAsUser"]; user != nil {
			users = append(users, user)
		}
	}
	return users
}
