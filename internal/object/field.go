// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// Texts returns the texts in a value of JSON with their paths, such as "spec.containers[0].image", in the order of the keys.
func Texts(value any) iter.Seq2[string, string] {
	return func(yield func(path, text string) bool) { textsBelow("", value, yield) }
}

func textsBelow(path string, value any, yield func(path, text string) bool) bool {
	switch value := value.(type) {
	case string:
		return yield(path, value)
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if !textsBelow(strings.TrimPrefix(path+"."+key, "."), value[key], yield) {
				return false
			}
		}
	case []any:
		for i, item := range value {
			if !textsBelow(fmt.Sprintf("%s[%d]", path, i), item, yield) {
				return false
			}
		}
	}
	return true
}

// ReplaceTexts replaces each text in a value of JSON, which it changes, and returns it.
func ReplaceTexts(value any, replace func(string) string) any {
	switch value := value.(type) {
	case string:
		return replace(value)
	case map[string]any:
		for key, field := range value {
			value[key] = ReplaceTexts(field, replace)
		}
	case []any:
		for i, item := range value {
			value[i] = ReplaceTexts(item, replace)
		}
	}
	return value
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

// ChangedFields returns the paths of the values of JSON that differ, such as "spec.containers[0].image". Lists of different
// length differ as a whole. An absent object is the same as an empty one: the paths are the paths of its fields.
func ChangedFields(before, after any) []string { return changedBelow("", before, after) }

func changedBelow(path string, before, after any) (changed []string) {
	if Equal(before, after) {
		return nil
	}
	beforeMap, isMap := before.(map[string]any)
	afterMap, isMapToo := after.(map[string]any)
	if isMap && isMapToo || isMap && after == nil && len(beforeMap) > 0 || isMapToo && before == nil && len(afterMap) > 0 {
		keys := slices.Sorted(maps.Keys(beforeMap))
		for _, key := range slices.Sorted(maps.Keys(afterMap)) {
			if _, both := beforeMap[key]; !both {
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			changed = append(changed, changedBelow(strings.TrimPrefix(path+"."+key, "."), beforeMap[key], afterMap[key])...)
		}
		return changed
	}
	beforeList, isList := before.([]any)
	afterList, isListToo := after.([]any)
	if isList && isListToo && len(beforeList) == len(afterList) {
		for i := range beforeList {
			changed = append(changed, changedBelow(fmt.Sprintf("%s[%d]", path, i), beforeList[i], afterList[i])...)
		}
		return changed
	}
	return []string{path}
}

// CRDVersions returns the names of the versions of a CRD.
func CRDVersions(crd *unstructured.Unstructured) (names []string) {
	for _, version := range MapsAt(crd.Object, "spec", "versions") {
		names = append(names, TextAt(version, "name"))
	}
	return names
}

// StorageVersion returns the name of the version in which the API server stores instances of a CRD; empty if it has no versions.
func StorageVersion(crd *unstructured.Unstructured) string {
	for _, version := range MapsAt(crd.Object, "spec", "versions") {
		if version["storage"] == true {
			return TextAt(version, "name")
		}
	}
	return ""
}

// SetStorageVersion makes one of the versions of a CRD its storage version.
func SetStorageVersion(crd *unstructured.Unstructured, name string) {
	for _, version := range MapsAt(crd.Object, "spec", "versions") {
		version["storage"] = version["name"] == name
	}
}

// ServesVersion reports whether a CRD serves a version.
func ServesVersion(crd *unstructured.Unstructured, name string) bool {
	return slices.ContainsFunc(MapsAt(crd.Object, "spec", "versions"), func(of map[string]any) bool { return of["name"] == name && of["served"] == true })
}

// ClientConfigs returns the client configurations in an object. They refer to a
// Service: {service: {namespace, name}, caBundle}. Missing ones are nil.
func ClientConfigs(o *unstructured.Unstructured) []map[string]any {
	switch GroupKind(o) {
	case MutatingWebhookConfiguration, ValidatingWebhookConfiguration:
		var configs []map[string]any
		for _, webhook := range MapsAt(o.Object, "webhooks") {
			configs = append(configs, MapAt(webhook, "clientConfig"))
		}
		return configs
	case CustomResourceDefinition:
		return []map[string]any{MapAt(o.Object, "spec", "conversion", "webhook", "clientConfig")}
	case ExtensionConfig:
		return []map[string]any{MapAt(o.Object, "spec", "clientConfig")}
	case APIService:
		return []map[string]any{MapAt(o.Object, "spec")}
	}
	return nil
}
