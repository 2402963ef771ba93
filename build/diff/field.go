// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/capi-installer/capi-installer/internal/object"
)

// listKeys are the key fields of list items by the name of the list, as in the
// Kubernetes types.
var listKeys = map[string][]string{
	"containers":                {"name"},
	"initContainers":            {"name"},
	"ephemeralContainers":       {"name"},
	"env":                       {"name"},
	"ports":                     {"containerPort", "port", "protocol"},
	"volumes":                   {"name"},
	"volumeMounts":              {"mountPath"},
	"volumeDevices":             {"devicePath"},
	"imagePullSecrets":          {"name"},
	"hostAliases":               {"ip"},
	"topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"},
	"webhooks":                  {"name"},
	"matchConditions":           {"name"},
	"validations":               {"expression"},
	"variables":                 {"name"},
	"auditAnnotations":          {"key"},
	"versions":                  {"name"},
	"additionalPrinterColumns":  {"name"},
	"selectableFields":          {"jsonPath"},
	"conditions":                {"type"},
	"subjects":                  {"kind", "namespace", "name"},
	"secrets":                   {"name"},
	"items":                     {"key"},
	"ownerReferences":           {"uid"},
	"volumeClaimTemplates":      {"name"},
}

// fields returns the changed fields below path. A value that exists on only one
// side is one change that includes everything below it.
func fields(path string, a, b any) []Change {
	mapA, isA := a.(map[string]any)
	mapB, isB := b.(map[string]any)
	if isA && isB || isA && b == nil && isLabels(path) || isB && a == nil && isLabels(path) {
		return fieldsOfMaps(path, mapA, mapB)
	}
	listA, isA := a.([]any)
	listB, isB := b.([]any)
	if isA && isB {
		return fieldsOfLists(path, listA, listB)
	}
	if object.Equal(a, b) {
		return nil
	}
	return []Change{fieldChange(path, a, b)}
}

// isLabels reports whether a field holds labels or annotations: they are compared one by one.
func isLabels(path string) bool {
	name := lastName(path)
	return name == "labels" || name == "annotations"
}

// fieldChange returns the change of a field; nil stands for a missing value.
func fieldChange(path string, a, b any) Change {
	says := "changed"
	switch {
	case a == nil:
		says = "added"
	case b == nil:
		says = "removed"
	}
	return Change{Rule: "field", Level: Plain, Path: path, Message: says, From: a, To: b}
}

func fieldsOfMaps(path string, a, b map[string]any) (changes []Change) {
	for _, name := range unionOfKeys(a, b) {
		changes = append(changes, fields(below(path, name), a[name], b[name])...)
	}
	return changes
}

func unionOfKeys[V any](a, b map[string]V) []string { return slices.Sorted(maps.Keys(union(a, b))) }

// fieldsOfLists compares list items by their keys, flags by their names, and other items by value.
func fieldsOfLists(path string, a, b []any) []Change {
	for _, key := range []func([]any) (map[string]any, bool){byKeys(path), byFlag(path)} {
		itemsA, keyedA := key(a)
		itemsB, keyedB := key(b)
		if keyedA && keyedB {
			if changes := fieldsOfItems(path, itemsA, itemsB); len(changes) > 0 || object.Equal(a, b) {
				return changes
			}
			return []Change{{Rule: "field", Level: Plain, Path: path, Message: "reordered"}}
		}
	}
	return unkeyed(path, a, b)
}

func fieldsOfItems(path string, a, b map[string]any) (changes []Change) {
	for _, key := range unionOfKeys(a, b) {
		changes = append(changes, fields(path+"["+key+"]", a[key], b[key])...)
	}
	return changes
}

// byKeys returns the items of a list by their keys; false if the keys are not unique.
func byKeys(path string) func([]any) (map[string]any, bool) {
	names := listKeys[lastName(path)]
	return func(list []any) (map[string]any, bool) {
		items := map[string]any{}
		for _, element := range list {
			item, isMap := element.(map[string]any)
			var parts []string
			for _, name := range names {
				if value, exists := item[name]; exists {
					parts = append(parts, compact(value))
				}
			}
			key := strings.Join(parts, "/")
			if _, duplicate := items[key]; !isMap || duplicate || key == "" {
				return nil, false
			}
			items[key] = item
		}
		return items, len(names) > 0
	}
}

// byFlag returns arguments by their names: {"--v": "2"} for --v=2, and
// {"--feature-gates": {"A": "true", "B": "false"}} for --feature-gates=A=true,B=false.
func byFlag(path string) func([]any) (map[string]any, bool) {
	name := lastName(path)
	return func(list []any) (map[string]any, bool) {
		items := map[string]any{}
		for _, element := range list {
			text, isText := element.(string)
			flag, value, hasValue := strings.Cut(text, "=")
			if _, duplicate := items[flag]; !isText || duplicate || !strings.HasPrefix(flag, "-") {
				return nil, false
			}
			items[flag] = ""
			if hasValue {
				items[flag] = settings(value)
			}
		}
		return items, name == "args" || name == "command"
	}
}

// settings splits a flag's value of the form a=x,b=y; other values are returned unchanged.
func settings(value string) any {
	parts := strings.Split(value, ",")
	found := map[string]any{}
	for _, part := range parts {
		name, setting, isSetting := strings.Cut(part, "=")
		if !isSetting || !plainName.MatchString(name) {
			return value
		}
		found[name] = setting
	}
	return found
}

// unkeyed compares lists whose items have no keys: a changed item is one removed and one added item.
func unkeyed(path string, a, b []any) []Change {
	removedItems, addedItems := without(a, b), without(b, a)
	if len(removedItems)+len(addedItems) == 0 {
		if object.Equal(a, b) {
			return nil
		}
		return []Change{{Rule: "field", Level: Plain, Path: path, Message: "reordered"}}
	}
	var changes []Change
	for _, item := range removedItems {
		changes = append(changes, fieldChange(path+"[]", item, nil))
	}
	for _, item := range addedItems {
		changes = append(changes, fieldChange(path+"[]", nil, item))
	}
	return changes
}

// without returns the items of a that are not in b. Duplicates count separately.
func without(a, b []any) (rest []any) {
	left := slices.Clone(b)
	for _, item := range a {
		at := slices.IndexFunc(left, func(other any) bool { return object.Equal(item, other) })
		if at < 0 {
			rest = append(rest, item)
			continue
		}
		left = slices.Delete(left, at, at+1)
	}
	return rest
}

// segment matches a part of a path: a name, or the key of a list item or a quoted name in brackets.
var segment = regexp.MustCompile(`\[[^\]]*\]|[^.\[]+`)

var plainName = regexp.MustCompile(`^[A-Za-z0-9_$-]+$`)

// below returns the path of a field: a.b, or a["b.c"] if the name is not a plain identifier.
func below(path, name string) string {
	switch {
	case !plainName.MatchString(name):
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// lastName returns the name of the field at the end of a path; empty for a list item.
func lastName(path string) string {
	if strings.HasSuffix(path, "]") {
		return ""
	}
	return path[strings.LastIndexAny(path, ".]")+1:]
}

// compact returns a value in one line: a string unchanged, other values as JSON.
func compact(value any) string {
	if text, isText := value.(string); isText {
		return text
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return "?" // YAML values can always be encoded
	}
	return string(encoded)
}
