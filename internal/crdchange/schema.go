// SPDX-License-Identifier: Apache-2.0

package crdchange

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/validations"
	"sigs.k8s.io/crdify/pkg/validations/property"
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
	before, after := constraintsOf(was), constraintsOf(is)
	for _, c := range constraints {
		d := difference{was, is, before[c.field], after[c.field]}
		if reflect.DeepEqual(d.from, d.to) {
			continue
		}
		change := Change{Rule: "crd/" + c.rule, From: d.from, To: d.to}
		change.Level, change.Message, change.Consequence = c.classify(d)
		if change.Level == Noise {
			change.From, change.To = nil, nil
		}
		changes = append(changes, change)
	}
	return changes
}

// constraint is one constraint of a property, such as its maximum length.
type constraint struct {
	// field is the field of the schema, and rule the name of a change of it.
	field, rule string
	classify    classification
}

// difference is a difference of a constraint of a property, with its values as JSON; nil if it is not set.
type difference struct {
	was, is  *schema
	from, to any
}

// classification classifies a difference, and describes it and its consequence.
type classification func(difference) (level Level, says, means string)

// validation is a validation of crdify for a property.
type validation interface {
	validations.Validation
	validations.Comparator[schema]
}

const (
	rejectsOthers = "Existing objects with another value stay readable; writes that set one are rejected."
	rejectsSome   = "Existing objects that violate it stay readable; writes of such values are rejected."
)

// constraints are the compared constraints of a property: with the validations of crdify, and our own for the constraints that crdify does not
// validate. They are read-only.
//
// Each property is validated separately. crdify's walk over a schema gives a
// property and the alternatives in its anyOf the same path, so that the last one
// hides the others, and lists names in its messages in random order.
var constraints = []constraint{
	{"type", "type", classifyBy(&property.Type{}, "type changed", "type changed", rejectsOthers)},
	{"enum", "enum", classifyBy(&property.Enum{EnumConfig: property.EnumConfig{AdditionPolicy: property.AdditionPolicyAllow}}, "fewer values are allowed", "more values are allowed", rejectsOthers)},
	{"required", "required", classifyRequired},
	{"default", "default", classifyDefault},
	bound("maximum", &property.Maximum{}), bound("minimum", &property.Minimum{}),
	bound("maxLength", &property.MaxLength{}), bound("minLength", &property.MinLength{}),
	bound("maxItems", &property.MaxItems{}), bound("minItems", &property.MinItems{}),
	bound("maxProperties", &property.MaxProperties{}), bound("minProperties", &property.MinProperties{}),
	{"description", "description", classifyText},
	narrowing("pattern", "pattern", Review),
	narrowing("format", "format", Review),
	narrowing("multipleOf", "multiple-of", Breaking),
	narrowing("exclusiveMinimum", "exclusive-minimum", Review),
	narrowing("exclusiveMaximum", "exclusive-maximum", Review),
	narrowing("uniqueItems", "unique-items", Review),
	narrowing("not", "not", Review),
	switched("nullable", "nullable", "null is allowed", "null is no longer allowed", rejectsOthers),
	switched("x-kubernetes-preserve-unknown-fields", "unknown-fields", "unknown fields are preserved", "unknown fields are no longer preserved",
		"Existing values of fields outside the schema are silently dropped at the next write."),
	switched("x-kubernetes-int-or-string", "int-or-string", "integers and strings are allowed", "no longer both integer and string", rejectsOthers),
	review("allOf", "all-of", "allOf", rejectsSome),
	review("anyOf", "any-of", "anyOf", rejectsSome),
	review("oneOf", "one-of", "oneOf", rejectsSome),
	review("additionalProperties", "additional-properties", "additionalProperties", ""),
	review("x-kubernetes-list-type", "list-type", "list type", "Server-side apply tracks the ownership of items differently; sets and maps reject duplicate items."),
	review("x-kubernetes-list-map-keys", "list-map-keys", "list map keys", "Items are identified by other keys; items with equal keys are rejected."),
	review("x-kubernetes-map-type", "map-type", "map type", "Server-side apply tracks the ownership of fields differently."),
	review("x-kubernetes-embedded-resource", "embedded-resource", "embedded resource", ""),
	{"x-kubernetes-validations", "rules", classifyRules},
	{"title", "text", classifyText}, {"externalDocs", "text", classifyText}, {"example", "text", classifyText},
}

// constraintsOf returns the constraints of a property, without the constraints of the properties below it. The order of values, names and rules does not
// count.
func constraintsOf(s *schema) map[string]any {
	own := *s
	own.Properties, own.Items = nil, nil
	if own.AdditionalProperties != nil && own.AdditionalProperties.Schema != nil {
		own.AdditionalProperties = nil
	}
	own.Required = slices.Sorted(slices.Values(s.Required))
	own.Enum = slices.SortedFunc(slices.Values(s.Enum), func(a, b apiextensionsv1.JSON) int { return bytes.Compare(a.Raw, b.Raw) })
	own.XValidations = slices.SortedFunc(slices.Values(s.XValidations), func(a, b apiextensionsv1.ValidationRule) int { return cmp.Compare(a.Rule, b.Rule) })
	found, _ := jsonValue(own).(map[string]any)
	for _, c := range constraints {
		if value, set := found[c.field]; c.field == "nullable" || c.field == "x-kubernetes-preserve-unknown-fields" || c.field == "x-kubernetes-int-or-string" {
			found[c.field] = set && value == true
		}
	}
	return found
}

// enforced configures a validation to report incompatible changes as errors.
func enforced(v validation) validation {
	v.SetEnforcement(config.EnforcementPolicyError)
	return v
}

// incompatible reports whether a validation finds a change incompatible.
func incompatible(v validation, d difference) bool {
	return len(v.Compare(d.was.DeepCopy(), d.is.DeepCopy()).Errors) > 0 // Compare modifies its arguments
}

// classifyBy classifies a change with a validation of crdify: an incompatible change is Breaking.
func classifyBy(v validation, worse, better, means string) classification {
	v = enforced(v)
	return func(d difference) (Level, string, string) {
		if incompatible(v, d) {
			return Breaking, worse, means
		}
		return Plain, better, ""
	}
}

func bound(name string, v validation) constraint {
	return constraint{name, strings.ToLower(name), classifyBy(v, name+" is tighter", name+" is looser", rejectsSome)}
}

// narrowing classifies a new constraint as Breaking and a removed one as Plain. The
// level of a changed one is changed.
func narrowing(field, rule string, changed Level) constraint {
	return constraint{field, rule, func(d difference) (Level, string, string) {
		switch {
		case d.from == nil:
			return Breaking, field + " added", rejectsSome
		case d.to == nil:
			return Plain, field + " removed", ""
		}
		return changed, field + " changed", "It may reject values that were valid before; writes of such values are then rejected."
	}}
}

// switched classifies the end of a permission as Breaking.
func switched(field, rule, begins, ends, means string) constraint {
	return constraint{field, rule, func(d difference) (Level, string, string) {
		if d.from == true {
			return Breaking, ends, means
		}
		return Plain, begins, ""
	}}
}

func review(field, rule, label, means string) constraint {
	return constraint{field, rule, func(difference) (Level, string, string) { return Review, label + " changed", means }}
}

func classifyText(difference) (Level, string, string) { return Noise, "descriptions changed", "" }

// classifyRequired classifies a change of the required fields. Fields with a default
// do not count, because they are never missing.
func classifyRequired(d difference) (Level, string, string) {
	if !incompatible(enforced(&property.Required{}), d) {
		return Plain, "fewer fields are required", ""
	}
	names := slices.DeleteFunc(slices.Sorted(slices.Values(d.is.Required)), func(name string) bool { return slices.Contains(d.was.Required, name) })
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return d.is.Properties[name].Default != nil })
	if len(missing) == 0 {
		return Plain, strings.Join(names, ", ") + " is required", "Objects without it get its default."
	}
	return Breaking, strings.Join(missing, ", ") + " is required", "Existing objects without it stay readable, but every write is rejected, including writes of controllers."
}

// classifyDefault classifies a change of the default.
func classifyDefault(d difference) (Level, string, string) {
	const means = "Objects without the field have another value at the next read."
	switch {
	case !incompatible(enforced(&property.Default{}), d):
		return Plain, "rewritten without semantic change", ""
	case d.from == nil:
		return Review, "default added", means
	case d.to == nil:
		return Breaking, "default removed", "New objects without the field have no value."
	}
	return Breaking, "default changed", means
}

func classifyRules(d difference) (Level, string, string) {
	switch {
	case hasNewRule(d.is, d.was):
		return Review, "validation rule added or changed", "Existing objects that violate it stay readable; writes that change the validated fields are rejected."
	case hasNewRule(d.was, d.is):
		return Plain, "validation rule removed", ""
	}
	return classifyText(d) // only a message changed
}

// hasNewRule reports whether a property has a validation rule that another one lacks.
func hasNewRule(one, other *schema) bool {
	return slices.ContainsFunc(one.XValidations, func(rule apiextensionsv1.ValidationRule) bool {
		return !slices.ContainsFunc(other.XValidations, func(o apiextensionsv1.ValidationRule) bool { return o.Rule == rule.Rule })
	})
}
