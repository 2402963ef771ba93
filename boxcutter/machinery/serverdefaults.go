// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// withoutAdditions drops from a set of modified fields those that hold all that
// is wanted, and more. Such fields are lists and maps that are written as a
// whole, into which the API server has put defaults: in the rules of a webhook,
// for example. What it adds elsewhere is no difference either.
func withoutAdditions(modified *fieldpath.Set, desired, actual *unstructured.Unstructured) *fieldpath.Set {
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

// contains says whether a list or map holds all that is wanted: of a map the
// same values under the same keys, of a list as many items, each of which holds
// all that is wanted of it. Anything else must be equal.
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
