// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/predecessor"
)

// changedFields returns the paths of the fields that differ between an object and the result of a dry run. It ignores the fields that the
// API server and the installer write themselves: a plan has no certificates and no owners.
func changedFields(actual, result *unstructured.Unstructured) []string {
	return differences("", compared(actual).Object, compared(result).Object)
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

// caBundle is the field in which the installer, or another controller, writes a CA.
const caBundle = ".caBundle"

// differences returns the paths of different values below a path.
func differences(path string, before, after any) (paths []string) {
	if equality.Semantic.DeepEqual(before, after) || strings.HasSuffix(path, caBundle) {
		return nil
	}
	beforeMap, isMap := before.(map[string]any)
	afterMap, isMapToo := after.(map[string]any)
	if isMap && isMapToo {
		keys := slices.Sorted(maps.Keys(beforeMap))
		for _, key := range slices.Sorted(maps.Keys(afterMap)) {
			if _, both := beforeMap[key]; !both {
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			paths = append(paths, differences(strings.TrimPrefix(path+"."+key, "."), beforeMap[key], afterMap[key])...)
		}
		return paths
	}
	beforeList, isList := before.([]any)
	afterList, isListToo := after.([]any)
	if isList && isListToo && len(beforeList) == len(afterList) {
		for i := range beforeList {
			paths = append(paths, differences(fmt.Sprintf("%s[%d]", path, i), beforeList[i], afterList[i])...)
		}
		return paths
	}
	return []string{path}
}
