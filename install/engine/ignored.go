// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

// The drift policy leaves fields to other actors. Such a field is not part of the desired object once the object exists, so that no value of
// it is drift. As long as the installer still owns the field, the desired value is the actual one: an apply without the field would
// remove it.

// ignore returns the object without the fields that the drift policy leaves to others. It does not change its argument.
func ignore(ctx context.Context, reader client.Reader, policy []v1alpha1.IgnoredFields, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var fields []string
	for _, entry := range policy {
		if entry.Matches(object.GroupKind(desired), desired.GetName()) {
			fields = append(fields, entry.Fields...)
		}
	}
	if fields == nil {
		return desired, nil
	}
	actual, err := ReferenceTo(desired).Read(ctx, reader)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return desired, nil // it is created with the values of the manifest
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s, of which the drift policy leaves fields to others: %w", object.Describe(desired), err)
	}
	out := desired.DeepCopy()
	owned := ownFields(actual)
	for _, field := range fields {
		leave(out.Object, actual.Object, owned, pointer(field))
	}
	return out, nil
}

// pointer returns the tokens of a JSON pointer.
func pointer(text string) []string {
	tokens := strings.Split(text, "/")[1:]
	for i := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(tokens[i])
	}
	return tokens
}

// ownFields returns the fields of an object that the installer owns, each entry in the form of managedFields.
func ownFields(obj metav1.Object) (owned []map[string]any) {
	for _, entry := range obj.GetManagedFields() {
		fields := map[string]any{}
		if entry.Manager == v1alpha1.FieldOwner && entry.Subresource == "" && entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil {
			owned = append(owned, fields)
		}
	}
	return owned
}

// leave replaces a field of a desired value by the actual one if the installer owns it, and removes it otherwise.
func leave(desired, actual any, owned []map[string]any, tokens []string) {
	token, rest := tokens[0], tokens[1:]
	switch desired := desired.(type) {
	case map[string]any:
		actual, _ := actual.(map[string]any)
		value, found := desired[token]
		if !found {
			return
		}
		owned = within(owned, func(key string) bool { return key == "f:"+token })
		present, exists := actual[token]
		switch {
		case len(rest) > 0:
			leave(value, present, owned, rest)
		case exists && owned != nil:
			desired[token] = runtime.DeepCopyJSONValue(present)
		default:
			delete(desired, token)
		}
	case []any:
		actual, _ := actual.([]any)
		index, err := strconv.Atoi(token)
		if err != nil || index < 0 || index >= len(desired) || len(rest) == 0 {
			return
		}
		if item := counterpart(desired[index], actual, index); item != nil {
			leave(desired[index], item, within(owned, func(key string) bool { return selects(key, item, index) }), rest)
		}
	}
}

// counterpart returns the item of a list that corresponds to a desired one: with the same name, or else at the same index.
func counterpart(desired any, actual []any, index int) any {
	if name := nameOf(desired); name != "" {
		for _, item := range actual {
			if nameOf(item) == name {
				return item
			}
		}
		return nil
	}
	if index < len(actual) {
		return actual[index]
	}
	return nil
}

func nameOf(item any) string {
	fields, _ := item.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}

// within returns the parts of managed fields below the keys that match. A field without parts is owned with all of its parts.
func within(owned []map[string]any, matches func(key string) bool) (parts []map[string]any) {
	for _, fields := range owned {
		if len(fields) == 0 {
			parts = append(parts, fields)
		}
		for key, value := range fields {
			if below, ok := value.(map[string]any); ok && matches(key) {
				parts = append(parts, below)
			}
		}
	}
	return parts
}

// selects reports whether a key of managed fields selects an item of a list.
func selects(key string, item any, index int) bool {
	if key == "i:"+strconv.Itoa(index) {
		return true
	}
	values := map[string]any{}
	text, keyed := strings.CutPrefix(key, "k:")
	fields, ok := item.(map[string]any)
	if !keyed || !ok || json.Unmarshal([]byte(text), &values) != nil {
		return false
	}
	for name, value := range values {
		if present, found := fields[name]; found && fmt.Sprint(present) != fmt.Sprint(value) { // a missing field has its default
			return false
		}
	}
	return true
}
