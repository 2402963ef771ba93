// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ignoreServerDefaults removes from a set of modified fields those that contain all
// desired values and more: atomic lists and maps, such as the rules of a webhook, into
// which the API server writes defaults.
func ignoreServerDefaults(modified *fieldpath.Set, desired, actual *unstructured.Unstructured) *fieldpath.Set {
	if modified.Empty() {
		return modified
	}
	extended := &fieldpath.Set{}
	modified.Leaves().Iterate(func(path fieldpath.Path) {
		if contains(valueAt(actual.Object, path), valueAt(desired.Object, path)) {
			extended.Insert(path.Copy())
		}
	})
	return modified.Difference(extended)
}

// contains reports whether a value contains the desired one: a map the same values
// under the same keys, a list as many items, each containing the desired item. Other
// values must be equal.
func contains(actual, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		actual, ok := actual.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range wanted {
			if !contains(actual[key], value) {
				return false
			}
		}
		return true
	case []any:
		actual, ok := actual.([]any)
		if !ok || len(actual) != len(wanted) {
			return false
		}
		for i, value := range wanted {
			if !contains(actual[i], value) {
				return false
			}
		}
		return true
	default:
		return equality.Semantic.DeepEqual(actual, wanted)
	}
}
