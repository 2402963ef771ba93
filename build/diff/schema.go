// SPDX-License-Identifier: Apache-2.0

package diff

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
// A property that is new or gone is told once, with how many are below it. One that
// is there before and after is compared constraint by constraint. A new property
// that is required matters only where what it is required of was there before, so
// it is found there.
func schemaChanges(version string, old, now *schema) (changes []Change) {
	before, after := propertiesOf(old), propertiesOf(now)
	for _, path := range unionOfKeys(before, after) {
		was, is := before[path], after[path]
		var found []Change
		switch {
		case was != nil && is != nil:
			found = constraintChanges(was, is)
		case retyped(before[parent(path)], after[parent(path)]):
			// what was below it is told by that
		case is == nil && after[parent(path)] != nil:
			found = []Change{removedField(path, before, after)}
		case was == nil && before[parent(path)] != nil:
			found = []Change{{Rule: "crd/field-added", Level: Plain, Says: "field is new" + alsoBelow(path, after), To: summaryOf(is)}}
		}
		for _, change := range found {
			change.Version, change.Path = version, strings.TrimPrefix(path, ".")
			changes = append(changes, change)
		}
	}
	return changes
}

// propertiesOf are all properties below a schema by path: "" the root, ".spec.a" a
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

// parent is the path of what a property is in.
func parent(path string) string {
	if inner, isItem := strings.CutSuffix(path, "[]"); isItem {
		return inner
	}
	if inner, isValue := strings.CutSuffix(path, "{}"); isValue {
		return inner
	}
	return path[:max(0, strings.LastIndex(path, "."))]
}

// retyped says whether a property is of another type than before.
func retyped(was, is *schema) bool { return was != nil && is != nil && was.Type != is.Type }

func removedField(path string, before, after map[string]*schema) Change {
	change := Change{Rule: "crd/field-removed", Level: Breaking, Says: "field is gone" + alsoBelow(path, before), From: summaryOf(before[path]), Means: "Its value is dropped from objects that have it, without a word, at the next write. Clients cannot set it."}
	for at := path; at != ""; {
		at = parent(at)
		if in := after[at]; in != nil {
			if in.XPreserveUnknownFields != nil && *in.XPreserveUnknownFields {
				change.Level, change.Means = Review, "Its value is kept, as unknown fields are here, and no longer checked."
			}
			break
		}
	}
	return change
}

func alsoBelow(path string, all map[string]*schema) string {
	count := 0
	for other := range all {
		if strings.HasPrefix(other, path) && other != path && strings.ContainsAny(other[len(path):len(path)+1], ".[{") {
			count++
		}
	}
	if count == 0 {
		return ""
	}
	return fmt.Sprintf(", with %d below it", count)
}

// summaryOf is what a field is, in a word.
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

// constraintChanges compares a property that is there before and after.
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
		change.Level, change.Says, change.Means = c.judge(was, is)
		if change.Level == Noise {
			change.Fold, change.From, change.To = FoldDescription, nil, nil
		}
		changes = append(changes, change)
	}
	return changes
}

// constraint is one thing that a schema says of a property.
type constraint struct {
	name string
	// value is what a schema says, nil if nothing; equal values are equal constraints.
	value func(*schema) any
	// judge says what a difference means.
	judge func(was, is *schema) (level Level, says, means string)
}

const (
	refusesOthers = "Objects with another value stay readable; writes that set one are refused."
	refusesSome   = "Objects that break it stay readable; writes of such values are refused."
)

// narrowing judges by what was there: a new constraint narrows, and one that went widens.
// Of one that changed, changed is the level.
func narrowing(what string, value func(*schema) any, changed Level) func(was, is *schema) (Level, string, string) {
	return func(was, is *schema) (Level, string, string) {
		switch {
		case value(was) == nil:
			return Breaking, what + " is new", refusesSome
		case value(is) == nil:
			return Plain, what + " is gone", ""
		}
		return changed, what + " changed", "Whether it refuses more than before cannot be told; if so, writes of such values are refused."
	}
}

// simple is a constraint that narrowing judges.
func simple(name, what string, changed Level, value func(*schema) any) constraint {
	return constraint{name, value, narrowing(what, value, changed)}
}

func reviewOf(what, means string) func(was, is *schema) (Level, string, string) {
	return func(_, _ *schema) (Level, string, string) { return Review, what + " changed", means }
}

// ownConstraints are those that crdify has no validation for.
func ownConstraints() []constraint {
	return []constraint{
		simple("pattern", "the pattern", Review, func(s *schema) any { return textOrNil(s.Pattern) }),
		simple("format", "the format", Review, func(s *schema) any { return textOrNil(s.Format) }),
		simple("multiple-of", "multipleOf", Breaking, func(s *schema) any { return pointed(s.MultipleOf) }),
		simple("exclusive-minimum", "exclusiveMinimum", Review, func(s *schema) any { return trueOrNil(s.ExclusiveMinimum) }),
		simple("exclusive-maximum", "exclusiveMaximum", Review, func(s *schema) any { return trueOrNil(s.ExclusiveMaximum) }),
		simple("unique-items", "uniqueItems", Review, func(s *schema) any { return trueOrNil(s.UniqueItems) }),
		simple("not", "what must not hold (not)", Review, func(s *schema) any { return valueOrNil(s.Not) }),
		{"nullable", func(s *schema) any { return s.Nullable }, judgeNullable},
		{"unknown-fields", func(s *schema) any { return preserves(s) }, judgeUnknown},
		{"int-or-string", func(s *schema) any { return s.XIntOrString }, judgeIntOrString},
		{"all-of", func(s *schema) any { return valueOrNil(s.AllOf) }, reviewOf("allOf", refusesSome)},
		{"any-of", func(s *schema) any { return valueOrNil(s.AnyOf) }, reviewOf("anyOf", refusesSome)},
		{"one-of", func(s *schema) any { return valueOrNil(s.OneOf) }, reviewOf("oneOf", refusesSome)},
		{"additional-properties", closed, reviewOf("additionalProperties", "")},
		{"list-type", func(s *schema) any { return valueOrNil(s.XListType) }, reviewOf("the list type", "Who owns which items is decided otherwise in server-side apply; a set or map refuses items that are there twice.")},
		{"list-map-keys", func(s *schema) any { return valueOrNil(s.XListMapKeys) }, reviewOf("the keys of the list", "Items are told apart otherwise; those with equal keys are refused.")},
		{"map-type", func(s *schema) any { return valueOrNil(s.XMapType) }, reviewOf("the map type", "Who owns which fields is decided otherwise in server-side apply.")},
		{"embedded-resource", func(s *schema) any { return trueOrNil(s.XEmbeddedResource) }, reviewOf("embedded resource", "")},
		{"rules", validationsOf, judgeRules},
		{"text", func(s *schema) any { return []any{s.Title, s.ExternalDocs, s.Example} }, judgeText},
	}
}

func judgeText(_, _ *schema) (Level, string, string) { return Noise, "texts changed", "" }

func judgeNullable(was, _ *schema) (Level, string, string) {
	if was.Nullable {
		return Breaking, "null is no longer allowed", refusesOthers
	}
	return Plain, "null is allowed", ""
}

func preserves(s *schema) bool { return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields }

func judgeUnknown(was, _ *schema) (Level, string, string) {
	if preserves(was) {
		return Breaking, "unknown fields are no longer kept", "Fields that the schema does not name are dropped from objects that have them, without a word, at the next write."
	}
	return Plain, "unknown fields are kept", ""
}

func judgeIntOrString(was, is *schema) (Level, string, string) {
	if was.XIntOrString {
		return Breaking, "either an integer or a string is no longer allowed: only " + is.Type, refusesOthers
	}
	return Plain, "both integers and strings are allowed", ""
}

// closed is what additionalProperties says where it has no schema.
func closed(s *schema) any {
	if s.AdditionalProperties == nil || s.AdditionalProperties.Schema != nil {
		return nil
	}
	return s.AdditionalProperties.Allows
}

// validationsOf are the CEL rules of a property, with their messages.
func validationsOf(s *schema) any {
	sorted := slices.SortedFunc(slices.Values(s.XValidations), func(a, b apiextensionsv1.ValidationRule) int { return strings.Compare(a.Rule, b.Rule) })
	return valueOrNil(sorted)
}

func judgeRules(was, is *schema) (Level, string, string) {
	gone, come := rulesNotIn(was, is), rulesNotIn(is, was)
	switch {
	case come > 0:
		return Review, "a rule is new or changed", "Objects that break it stay readable; a write that changes what the rule looks at is refused."
	case gone > 0:
		return Plain, "a rule is gone", ""
	}
	return judgeText(was, is) // of a rule
}

// rulesNotIn counts the rules of one that another has not.
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

func pointed[T any](pointer *T) any {
	if pointer == nil {
		return nil
	}
	return *pointer
}

// valueOrNil is a value as JSON reads it; nil for what is empty.
func valueOrNil(value any) any {
	if reflect.ValueOf(value).IsZero() || reflect.ValueOf(value).Kind() == reflect.Slice && reflect.ValueOf(value).Len() == 0 {
		return nil
	}
	return plain(value)
}
