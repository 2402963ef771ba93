// SPDX-License-Identifier: Apache-2.0

package crdchange

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type schema = apiextensionsv1.JSONSchemaProps

// schemaChanges compares the schemas of one version of a CRD, property by property.
//
// An added or removed property is one change, with the number of properties below it.
// A property on both sides is compared constraint by constraint. A new required
// property matters only if its parent existed before, so the parent reports it.
func schemaChanges(version string, old, now *schema) (changes []Change) {
	before, after := propertiesOf(old), propertiesOf(now)
	for _, path := range unionOfKeys(before, after) {
		was, is := before[path], after[path]
		var found []Change
		switch {
		case was != nil && is != nil:
			found = constraintChanges(was, is)
		case retyped(before[parent(path)], after[parent(path)]):
			// the type change of the parent covers it
		case is == nil && after[parent(path)] != nil:
			found = []Change{removedField(path, before, after)}
		case was == nil && before[parent(path)] != nil:
			found = []Change{{Rule: "crd/field-added", Level: Plain, Message: "field added" + nestedFields(path, after), To: summaryOf(is)}}
		}
		for _, change := range found {
			change.Version, change.Path = version, strings.TrimPrefix(path, ".")
			changes = append(changes, change)
		}
	}
	return changes
}

// propertiesOf returns all properties below a schema by path: "" is the root, ".spec.a" a
// field, ".spec.a[]" the items of a list, ".spec.a{}" the values of a map.
func propertiesOf(root *schema) map[string]*schema {
	found := map[string]*schema{}
	var walk func(path string, s *schema)
	walk = func(path string, s *schema) {
		found[path] = s
		for name := range s.Properties {
			property := s.Properties[name]
			walk(path+"."+name, &property)
		}
		if s.Items != nil && s.Items.Schema != nil {
			walk(path+"[]", s.Items.Schema)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			walk(path+"{}", s.AdditionalProperties.Schema)
		}
	}
	walk("", root)
	return found
}

// parent returns the path of the parent property.
func parent(path string) string {
	if inner, isItem := strings.CutSuffix(path, "[]"); isItem {
		return inner
	}
	if inner, isValue := strings.CutSuffix(path, "{}"); isValue {
		return inner
	}
	return path[:max(0, strings.LastIndex(path, "."))]
}

// retyped reports whether the type of a property changed.
func retyped(was, is *schema) bool { return was != nil && is != nil && was.Type != is.Type }

func removedField(path string, before, after map[string]*schema) Change {
	change := Change{Rule: "crd/field-removed", Level: Breaking, Message: "field removed" + nestedFields(path, before), From: summaryOf(before[path]), Consequence: "Existing values are silently dropped at the next write. Clients cannot set the field."}
	for at := path; at != ""; {
		at = parent(at)
		if in := after[at]; in != nil {
			if in.XPreserveUnknownFields != nil && *in.XPreserveUnknownFields {
				change.Level, change.Consequence = Review, "Values are preserved as unknown fields, but no longer validated."
			}
			break
		}
	}
	return change
}

// nestedFields describes the number of fields below a path; empty if it has none.
func nestedFields(path string, all map[string]*schema) string {
	count := 0
	for other := range all {
		if strings.HasPrefix(other, path) && other != path && strings.ContainsAny(other[len(path):len(path)+1], ".[{") {
			count++
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf(" with %d nested %s", count, map[bool]string{true: "field", false: "fields"}[count == 1])
}

// summaryOf returns the type of a field, such as "array of string".
func summaryOf(s *schema) string {
	switch {
	case s.XIntOrString:
		return "integer or string"
	case s.Type == "array" && s.Items != nil && s.Items.Schema != nil:
		return "array of " + summaryOf(s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map of " + summaryOf(s.AdditionalProperties.Schema)
	}
	return s.Type
}

// constraintChanges compares a property that exists on both sides.
func constraintChanges(was, is *schema) (changes []Change) {
	if reflect.DeepEqual(was, is) {
		return nil
	}
	for _, c := range constraints {
		from, to := c.value(was), c.value(is)
		if reflect.DeepEqual(from, to) {
			continue
		}
		change := Change{Rule: "crd/" + c.name, From: from, To: to}
		change.Level, change.Message, change.Consequence = c.classify(was, is)
		if change.Level == Noise {
			change.From, change.To = nil, nil
		}
		changes = append(changes, change)
	}
	return changes
}

// constraint is one constraint of a property, such as its maximum length.
type constraint struct {
	name string
	// value returns the value of the constraint, nil if it is not set.
	value func(*schema) any
	// classify classifies a change of the value and describes it and its consequence.
	classify func(was, is *schema) (level Level, says, means string)
}

const (
	rejectsOthers = "Existing objects with another value stay readable; writes that set one are rejected."
	rejectsSome   = "Existing objects that violate it stay readable; writes of such values are rejected."
)

// narrowing classifies a new constraint as Breaking and a removed one as Plain. The
// level of a changed one is changed.
func narrowing(label string, value func(*schema) any, changed Level) func(was, is *schema) (Level, string, string) {
	return func(was, is *schema) (Level, string, string) {
		switch {
		case value(was) == nil:
			return Breaking, label + " added", rejectsSome
		case value(is) == nil:
			return Plain, label + " removed", ""
		}
		return changed, label + " changed", "It may reject values that were valid before; writes of such values are then rejected."
	}
}

// simple returns a constraint that narrowing classifies.
func simple(name, label string, changed Level, value func(*schema) any) constraint {
	return constraint{name, value, narrowing(label, value, changed)}
}

func reviewOf(label, means string) func(was, is *schema) (Level, string, string) {
	return func(_, _ *schema) (Level, string, string) { return Review, label + " changed", means }
}

// ownConstraints returns the constraints that crdify does not validate.
func ownConstraints() []constraint {
	return []constraint{
		simple("pattern", "pattern", Review, func(s *schema) any { return textOrNil(s.Pattern) }),
		simple("format", "format", Review, func(s *schema) any { return textOrNil(s.Format) }),
		simple("multiple-of", "multipleOf", Breaking, func(s *schema) any { return pointee(s.MultipleOf) }),
		simple("exclusive-minimum", "exclusiveMinimum", Review, func(s *schema) any { return trueOrNil(s.ExclusiveMinimum) }),
		simple("exclusive-maximum", "exclusiveMaximum", Review, func(s *schema) any { return trueOrNil(s.ExclusiveMaximum) }),
		simple("unique-items", "uniqueItems", Review, func(s *schema) any { return trueOrNil(s.UniqueItems) }),
		simple("not", "not", Review, func(s *schema) any { return valueOrNil(s.Not) }),
		{"nullable", func(s *schema) any { return s.Nullable }, classifyNullable},
		{"unknown-fields", func(s *schema) any { return preserves(s) }, classifyUnknown},
		{"int-or-string", func(s *schema) any { return s.XIntOrString }, classifyIntOrString},
		{"all-of", func(s *schema) any { return valueOrNil(s.AllOf) }, reviewOf("allOf", rejectsSome)},
		{"any-of", func(s *schema) any { return valueOrNil(s.AnyOf) }, reviewOf("anyOf", rejectsSome)},
		{"one-of", func(s *schema) any { return valueOrNil(s.OneOf) }, reviewOf("oneOf", rejectsSome)},
		{"additional-properties", closed, reviewOf("additionalProperties", "")},
		{"list-type", func(s *schema) any { return valueOrNil(s.XListType) }, reviewOf("list type", "Server-side apply tracks the ownership of items differently; sets and maps reject duplicate items.")},
		{"list-map-keys", func(s *schema) any { return valueOrNil(s.XListMapKeys) }, reviewOf("list map keys", "Items are identified by other keys; items with equal keys are rejected.")},
		{"map-type", func(s *schema) any { return valueOrNil(s.XMapType) }, reviewOf("map type", "Server-side apply tracks the ownership of fields differently.")},
		{"embedded-resource", func(s *schema) any { return trueOrNil(s.XEmbeddedResource) }, reviewOf("embedded resource", "")},
		{"rules", validationsOf, classifyRules},
		{"text", func(s *schema) any { return []any{s.Title, s.ExternalDocs, s.Example} }, classifyText},
	}
}

func classifyText(_, _ *schema) (Level, string, string) { return Noise, "descriptions changed", "" }

func classifyNullable(was, _ *schema) (Level, string, string) {
	if was.Nullable {
		return Breaking, "null is no longer allowed", rejectsOthers
	}
	return Plain, "null is allowed", ""
}

func preserves(s *schema) bool { return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields }

func classifyUnknown(was, _ *schema) (Level, string, string) {
	if preserves(was) {
		return Breaking, "unknown fields are no longer preserved", "Existing values of fields outside the schema are silently dropped at the next write."
	}
	return Plain, "unknown fields are preserved", ""
}

func classifyIntOrString(was, is *schema) (Level, string, string) {
	if was.XIntOrString {
		return Breaking, "no longer both integer and string, only " + is.Type, rejectsOthers
	}
	return Plain, "integers and strings are allowed", ""
}

// closed returns the value of additionalProperties if it is a boolean.
func closed(s *schema) any {
	if s.AdditionalProperties == nil || s.AdditionalProperties.Schema != nil {
		return nil
	}
	return s.AdditionalProperties.Allows
}

// validationsOf returns the sorted CEL rules of a property.
func validationsOf(s *schema) any {
	sorted := slices.SortedFunc(slices.Values(s.XValidations), func(a, b apiextensionsv1.ValidationRule) int { return strings.Compare(a.Rule, b.Rule) })
	return valueOrNil(sorted)
}

func classifyRules(was, is *schema) (Level, string, string) {
	removedRules, addedRules := rulesNotIn(was, is), rulesNotIn(is, was)
	switch {
	case addedRules > 0:
		return Review, "validation rule added or changed", "Existing objects that violate it stay readable; writes that change the validated fields are rejected."
	case removedRules > 0:
		return Plain, "validation rule removed", ""
	}
	return classifyText(was, is) // only a message changed
}

// rulesNotIn counts the rules of one that are missing in other.
func rulesNotIn(one, other *schema) (count int) {
	for _, rule := range one.XValidations {
		if !slices.ContainsFunc(other.XValidations, func(o apiextensionsv1.ValidationRule) bool { return o.Rule == rule.Rule }) {
			count++
		}
	}
	return count
}

func textOrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func trueOrNil(is bool) any {
	if !is {
		return nil
	}
	return true
}

func pointee[T any](pointer *T) any {
	if pointer == nil {
		return nil
	}
	return *pointer
}

// valueOrNil returns a JSON value; nil if it is empty.
func valueOrNil(value any) any {
	if reflect.ValueOf(value).IsZero() || reflect.ValueOf(value).Kind() == reflect.Slice && reflect.ValueOf(value).Len() == 0 {
		return nil
	}
	return jsonValue(value)
}
