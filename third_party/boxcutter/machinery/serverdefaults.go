// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ignoreServerDefaults removes from a set of modified fields the atomic lists and maps
// that differ only in values added by the API server, such as the defaults in the
// rules of a webhook.
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

// contains reports whether a value contains the desired one. A map must contain the
// value of each desired key; a list must have the same length, and each item must
// contain the desired item. Other values must be equal.
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
