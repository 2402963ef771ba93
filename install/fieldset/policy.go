// SPDX-License-Identifier: Apache-2.0

package fieldset

import (
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Leave returns the desired object without the fields that the drift policy leaves to other actors, so that no value of them is drift. As long
// as the installer owns such a field, the desired value is the live one: an apply without the field would remove it. The same holds for a part
// of an atomic field, because such a field has one owner. The objects are not changed.
func (s *Schemas) Leave(policy []v1alpha1.IgnoredFields, desired, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	named := pointers(policy, desired)
	if named == nil {
		return desired, nil
	}
	values, err := s.typed(desired, live)
	if err != nil {
		return nil, err
	}
	wanted, err := values[0].ToFieldSet()
	if err != nil {
		return nil, err
	}
	present, err := values[1].ToFieldSet()
	if err != nil {
		return nil, err
	}
	left, owned := &fieldpath.Set{}, &fieldpath.Set{}
	out := desired.DeepCopy()
	for _, tokens := range named {
		switch path := locate(wanted, desired.Object, tokens); {
		case len(path) != len(tokens):
			copyValue(out.Object, live.Object, tokens)
		case hasItems(present, path):
			left.Insert(path)
		}
	}
	for _, entry := range live.GetManagedFields() {
		if isOurs(entry) {
			fields, err := fieldsOf(entry)
			if err != nil {
				return nil, err
			}
			owned = owned.Union(fields)
		}
	}
	if values, err = s.typed(out, live); err != nil {
		return nil, err
	}
	rest := values[0].RemoveItems(left)
	if kept := within(present, left).Intersection(within(wanted, left)).Intersection(owned); !kept.Empty() {
		if rest, err = rest.Merge(values[1].ExtractItems(kept, typed.WithAppendKeyFields())); err != nil {
			return nil, err
		}
	}
	content, _ := withoutNulls(rest.AsValue().Unstructured()).(map[string]any)
	return &unstructured.Unstructured{Object: content}, nil
}

// withoutNulls removes the null values from the maps of a value. A map that has lost its last field is null, and an apply of null would remove
// the fields of other actors too.
func withoutNulls(of any) any {
	switch of := of.(type) {
	case map[string]any:
		maps.DeleteFunc(of, func(_ string, value any) bool { return withoutNulls(value) == nil })
	case []any:
		for _, item := range of {
			withoutNulls(item)
		}
	}
	return of
}

// hasItems reports whether an object with these fields has the items of lists on a path. An item that is gone is written as a whole.
func hasItems(fields *fieldpath.Set, path fieldpath.Path) bool {
	for i, element := range path[:len(path)-1] {
		if element.FieldName == nil && !fields.Has(path[:i+1]) {
			return false
		}
	}
	return true
}

// pointers returns the tokens of the JSON pointers that a policy has for an object.
func pointers(policy []v1alpha1.IgnoredFields, obj *unstructured.Unstructured) (found [][]string) {
	for _, entry := range policy {
		if !entry.Matches(object.GroupKind(obj), obj.GetName()) {
			continue
		}
		for _, field := range entry.Fields {
			found = append(found, v1alpha1.Tokens(field))
		}
	}
	return found
}

// locate returns the path of a JSON pointer in an object with these fields. It is shorter than the pointer if it ends at an atomic field, and
// nil if the object has no such item of a list.
func locate(fields *fieldpath.Set, content any, tokens []string) (path fieldpath.Path) {
	for _, token := range tokens {
		element := fieldpath.FieldNameElement(token)
		switch at := content.(type) {
		case map[string]any:
			if len(at) > 0 && fields.Empty() {
				return path
			}
			content = at[token]
		case []any:
			index, err := strconv.Atoi(token)
			if err != nil || index < 0 || index >= len(at) {
				return nil
			}
			found := false
			if content = at[index]; !fields.Empty() {
				element, found = elementOf(fields, content)
			}
			if !found {
				return path
			}
		}
		path, fields = append(path, element), fields.WithPrefix(element)
	}
	return path
}

// elementOf returns the element that selects an item of a list with keys.
func elementOf(fields *fieldpath.Set, item any) (fieldpath.PathElement, bool) {
	for element := range fields.Children.All() {
		if element.Key != nil && selects(*element.Key, item) {
			return element, true
		}
	}
	for element := range fields.Members.All() {
		if element.Value != nil && value.Equals(*element.Value, value.NewValueInterface(item)) {
			return element, true
		}
	}
	return fieldpath.PathElement{}, false
}

// selects reports whether an item has the keys; a key that it lacks has its default.
func selects(keys value.FieldList, item any) bool {
	content, _ := item.(map[string]any)
	for _, key := range keys {
		if present, found := content[key.Name]; found && !value.Equals(key.Value, value.NewValueInterface(present)) {
			return false
		}
	}
	return true
}

// copyValue copies the value of a JSON pointer, if both objects have it.
func copyValue(to, from any, tokens []string) {
	for i, token := range tokens {
		switch container := to.(type) {
		case map[string]any:
			source, _ := from.(map[string]any)
			present, found := source[token]
			if _, wanted := container[token]; !found || !wanted {
				return
			}
			if i == len(tokens)-1 {
				container[token] = runtime.DeepCopyJSONValue(present)
				return
			}
			to, from = container[token], present
		case []any:
			source, _ := from.([]any)
			index, err := strconv.Atoi(token)
			if err != nil || index < 0 || index >= min(len(container), len(source)) {
				return
			}
			to, from = container[index], source[index]
		default:
			return
		}
	}
}
