// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// changedFields returns the paths of the fields that differ between an object and the result of a dry run. It ignores the fields that the
// API server and the installer write themselves: a plan has no certificates and no owners.
func changedFields(actual, result *unstructured.Unstructured) []string {
	changed := object.ChangedFields(compared(actual).Object, compared(result).Object)
	return slices.DeleteFunc(changed, func(path string) bool { return strings.HasSuffix(path, caBundle) })
}

// compared returns a copy of an object with the compared fields.
func compared(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	delete(o.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	for _, field := range []string{"labels", "annotations"} {
		all, _, _ := unstructured.NestedStringMap(o.Object, "metadata", field)
		maps.DeleteFunc(all, func(key, _ string) bool {
			return strings.HasPrefix(key, v1alpha1.Prefix) || key == predecessor.ManagedByLabel
		})
		unstructured.RemoveNestedField(o.Object, "metadata", field)
		if len(all) > 0 {
			_ = unstructured.SetNestedStringMap(o.Object, all, "metadata", field) // metadata is a map
		}
	}
	return o
}

// caBundle is the field for a CA. The installer or another controller writes it.
const caBundle = ".caBundle"
