// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// normalizations records the differences that remained after a write. The API server
// may normalize a value of a kind without a Go type, and an admission plugin may replace
// one. Without this record, the engine would make a dry run of such a value at every
// reconcile.
//
// A record ends when the object changes, and after some minutes: another write may have
// the desired value, because the admission plugin is gone.
//
// The zero value is ready to use. It is safe for concurrent use.
type normalizations struct {
	mu    sync.Mutex
	known map[types.ObjectRef]normalization
}

// normalization is a record of one object.
type normalization struct {
	// differences identifies the differences and the state of the object.
	differences string
	// until is the end of the record.
	until time.Time
}

// normalizedFor is the delay until a difference is tried again.
const normalizedFor = 10 * time.Minute

// record stores the differences that remained after the write.
func (s *normalizations) record(desired, actual Object, result CompareResult) {
	ref := types.ToObjectRef(desired)
	left := ""
	if result.differs() && !result.IsConflict() {
		left = fingerprint(desired, actual, result)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if left == "" {
		delete(s.known, ref)
		return
	}
	if s.known == nil {
		s.known = map[types.ObjectRef]normalization{}
	}
	s.known[ref] = normalization{left, time.Now().Add(normalizedFor)}
}

// matches reports whether exactly these differences remained after the last write, and the object has not changed since.
func (s *normalizations) matches(desired, actual Object, result CompareResult) bool {
	s.mu.Lock()
	left, found := s.known[types.ToObjectRef(desired)]
	s.mu.Unlock()
	return found && time.Now().Before(left.until) && left.differences == fingerprint(desired, actual, result)
}

// forget drops the record of an object.
func (s *normalizations) forget(obj Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, types.ToObjectRef(obj))
}

// fingerprint identifies the differences in an object: the fields with their
// desired and actual values, and the state of the object. It is empty on failure.
func fingerprint(desired, actual Object, result CompareResult) string {
	wanted, wantedErr := content(desired)
	present, presentErr := content(actual)
	if wantedErr != nil || presentErr != nil {
		return ""
	}
	differences := map[string][2]any{}
	for _, set := range []*fieldpath.Set{result.Comparison.Modified, result.Comparison.Removed} {
		for path := range leaves(set) {
			differences[path.String()] = [2]any{valueAt(wanted, path), valueAt(present, path)}
		}
	}
	data, err := json.Marshal(differences)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %s %x", actual.GetUID(), stateOf(actual), sha256.Sum256(data))
}

// stateOf identifies the content of an object without its status, where the API server counts its changes.
func stateOf(obj Object) string {
	if generation := obj.GetGeneration(); generation > 0 {
		return strconv.FormatInt(generation, 10)
	}
	return obj.GetResourceVersion()
}

// content returns the object's unstructured content. The caller must not modify it.
func content(obj Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}

// sameContent reports whether two objects are equal except for the managed fields and the
// resource version.
func sameContent(a, b Object) bool {
	left, errLeft := content(a)
	right, errRight := content(b)
	return errLeft == nil && errRight == nil && equality.Semantic.DeepEqual(withoutBookkeeping(left), withoutBookkeeping(right))
}

// withoutBookkeeping returns a copy of an object's content without the metadata that each
// write changes.
func withoutBookkeeping(content map[string]any) map[string]any {
	out := maps.Clone(content)
	if metadata, ok := out["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		delete(metadata, "resourceVersion")
		out["metadata"] = metadata
	}
	return out
}

// valueAt returns the value at a path, or nil.
func valueAt(node any, path fieldpath.Path) any {
	for _, element := range path {
		switch parent := node.(type) {
		case map[string]any:
			if element.FieldName == nil {
				return nil
			}
			node = parent[*element.FieldName]
		case []any:
			node = itemAt(parent, element)
		default:
			return nil
		}
	}
	return node
}

func itemAt(list []any, element fieldpath.PathElement) any {
	if element.Index != nil && *element.Index >= 0 && *element.Index < len(list) {
		return list[*element.Index]
	}
	for _, item := range list {
		if element.Value != nil && value.Equals(value.NewValueInterface(item), *element.Value) {
			return item
		}
		if element.Key != nil && hasKey(item, *element.Key) {
			return item
		}
	}
	return nil
}

// hasKey reports whether a list item has the values of a key. Key fields that the
// item omits have their default and are ignored.
func hasKey(item any, key value.FieldList) bool {
	fields, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for _, field := range key {
		if got, found := fields[field.Name]; found && !value.Equals(value.NewValueInterface(got), field.Value) {
			return false
		}
	}
	return true
}
