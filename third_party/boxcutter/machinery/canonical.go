// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// The API server stores some values in another form than they were written: "1000m" as "1", and false not at all. For a kind with a
// Go type this form is known without a request: the type encodes the value in it.

// withoutOtherForms removes from the sets of fields that differ those whose actual value is only another form of the desired one.
func (d *Comparator) withoutOtherForms(res *CompareResult, desired, actual *unstructured.Unstructured) {
	ofMetadata := func(path fieldpath.Path) bool { return !isContent(path) }
	if all(res.Comparison.Modified, ofMetadata) && all(res.Comparison.Removed, ofMetadata) { // without a conversion of a large object
		return
	}
	stored, known := d.stored(desired)
	if !known {
		return
	}
	res.Comparison.Modified = withoutMatching(res.Comparison.Modified, func(path fieldpath.Path) bool {
		value := valueAt(stored, path)
		return isScalar(value) && value == valueAt(actual.Object, path)
	})
	res.Comparison.Removed = withoutMatching(res.Comparison.Removed, func(path fieldpath.Path) bool {
		return isZero(valueAt(desired.Object, path)) && valueAt(stored, path) == nil
	})
}

// stored returns an object as its Go type encodes it, and false if there is none.
func (d *Comparator) stored(desired *unstructured.Unstructured) (map[string]any, bool) {
	if !d.scheme.Recognizes(desired.GroupVersionKind()) {
		return nil, false
	}
	object, err := d.scheme.New(desired.GroupVersionKind())
	if err != nil {
		return nil, false
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(desired.Object, object); err != nil {
		return nil, false
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	return content, err == nil
}

// withoutMatching returns a set without the leaves that match. The set may be nil.
func withoutMatching(set *fieldpath.Set, matches func(fieldpath.Path) bool) *fieldpath.Set {
	matching := &fieldpath.Set{}
	for path := range leaves(set) {
		if matches(path) {
			matching.Insert(path.Copy())
		}
	}
	if matching.Empty() {
		return set
	}
	return set.Leaves().Difference(matching)
}

// isScalar reports whether a value has no parts: the Go type may lack parts of others.
func isScalar(value any) bool {
	switch value.(type) {
	case nil, map[string]any, []any:
		return false
	default:
		return true
	}
}

// isZero reports whether a value is one that an encoder may omit.
func isZero(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case bool:
		return !value
	case string:
		return value == ""
	case int64:
		return value == 0
	case float64:
		return value == 0
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	default:
		return false
	}
}
