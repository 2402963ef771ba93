// SPDX-License-Identifier: Apache-2.0

package object

import (
	"maps"
	"slices"
)

// MapAt returns the map at a path of fields, or nil. Writes to the map change the
// object.
func MapAt(object map[string]any, path ...string) map[string]any {
	for _, field := range path {
		object, _ = object[field].(map[string]any)
	}
	return object
}

// ListAt returns the list at a path of fields, or nil.
func ListAt(object map[string]any, path ...string) []any {
	list, _ := valueAt(object, path).([]any)
	return list
}

// TextAt returns the string at a path of fields, or "".
func TextAt(object map[string]any, path ...string) string {
	text, _ := valueAt(object, path).(string)
	return text
}

// MapsAt returns the maps in the list at a path of fields. Other elements are
// skipped.
func MapsAt(object map[string]any, path ...string) []map[string]any {
	return elements[map[string]any](ListAt(object, path...))
}

// TextsAt returns the strings in the list at a path of fields. Other elements are
// skipped.
func TextsAt(object map[string]any, path ...string) []string {
	return elements[string](ListAt(object, path...))
}

// EnsureMap returns the map at a path of fields and creates missing maps.
func EnsureMap(object map[string]any, path ...string) map[string]any {
	for _, field := range path {
		next, ok := object[field].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[field] = next
		}
		object = next
	}
	return object
}

// SetDefault sets a field that does not exist.
func SetDefault(object map[string]any, field string, value any) {
	if _, exists := object[field]; !exists {
		object[field] = value
	}
}

// Equal reports whether two values of JSON are equal: maps, lists and scalars, as in unstructured objects. It takes a
// fraction of the time of reflect.DeepEqual.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, Equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	}
	return a == b
}

func valueAt(object map[string]any, path []string) any {
	last := len(path) - 1
	return MapAt(object, path[:last]...)[path[last]]
}

func elements[T any](list []any) []T {
	var found []T
	for _, element := range list {
		if value, ok := element.(T); ok {
			found = append(found, value)
		}
	}
	return found
}
