// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

var openShiftAnnotations = Transform{
	Name:    "openshift-annotations",
	Does:    "Drops annotations and labels of OpenShift, such as required security context constraints, workload management, capabilities and run levels.",
	Why:     "They have no effect in other clusters, and mislead readers about the provider's requirements.",
	Profile: only(extractor.Kubernetes),
	Apply: eachObject(func(o *unstructured.Unstructured) {
		dropOpenShiftKeys(object.MapAt(o.Object, "metadata"))
		dropOpenShiftKeys(object.MapAt(object.PodTemplate(o), "metadata"))
	}),
}

func dropOpenShiftKeys(metadata map[string]any) {
	for _, field := range []string{"annotations", "labels"} {
		keys := object.MapAt(metadata, field)
		before := len(keys)
		maps.DeleteFunc(keys, func(key string, _ any) bool { return isOpenShiftKey(key) })
		if before > 0 && len(keys) == 0 {
			delete(metadata, field)
		}
	}
}

// isOpenShiftKey reports whether the prefix of a key is a domain of OpenShift, except the installer's.
func isOpenShiftKey(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	return found && domain != v1alpha1.Prefix && (domain == "openshift.io" || strings.HasSuffix(domain, ".openshift.io"))
}
