// SPDX-License-Identifier: Apache-2.0

package crdchange

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestCompareSchemas compares two versions of the schema of spec.
func TestCompareSchemas(t *testing.T) {
	for _, c := range []struct {
		name, old, now string
		want           []string
	}{
		{"the same", `{type: string}`, `{type: string}`, nil},
		{"removed field", `{properties: {a: {type: string}, b: {type: string}}}`, `{properties: {a: {type: string}}}`, []string{"breaking crd/field-removed spec.b: field removed"}},
		{"removed field with nested fields", `{properties: {a: {type: object, properties: {b: {type: string}, c: {type: array, items: {type: string}}}}}}`, `{}`, []string{"breaking crd/field-removed spec.a: field removed with 3 nested fields"}},
		{"removed field whose name is a prefix of another", `{properties: {a: {type: string}, ab: {type: string}}}`, `{properties: {ab: {type: string}}}`, []string{"breaking crd/field-removed spec.a: field removed"}},
		{"removed field, unknown fields preserved", `{properties: {a: {type: string}}}`, `{x-kubernetes-preserve-unknown-fields: true}`, []string{"change crd/unknown-fields spec: unknown fields are preserved", "review crd/field-removed spec.a: field removed"}},
		{"removed field of list items", `{properties: {l: {type: array, items: {properties: {a: {type: string}}}}}}`, `{properties: {l: {type: array, items: {}}}}`, []string{"breaking crd/field-removed spec.l[].a: field removed"}},
		{"removed field of map values", `{additionalProperties: {properties: {a: {type: string}}}}`, `{additionalProperties: {}}`, []string{"breaking crd/field-removed spec{}.a: field removed"}},
		{"new field", `{}`, `{properties: {a: {type: string}}}`, []string{"change crd/field-added spec.a: field added"}},
		{"a new field has required fields", `{}`, `{properties: {a: {required: [b], properties: {b: {type: string}}}}}`, []string{"change crd/field-added spec.a: field added with 1 nested field"}},
		{"a new field is required", `{properties: {a: {type: string}}}`, `{required: [b], properties: {a: {type: string}, b: {type: string}}}`, []string{"breaking crd/required spec: b is required", "change crd/field-added spec.b: field added"}},
		{"a field with a default is required", `{properties: {a: {type: string, default: x}}}`, `{required: [a], properties: {a: {type: string, default: x}}}`, []string{"change crd/required spec: a is required"}},
		{"a field is no longer required", `{required: [a, b]}`, `{required: [b]}`, []string{"change crd/required spec: fewer fields are required"}},
		{"required fields in another order", `{required: [a, b]}`, `{required: [b, a]}`, nil},
		{"another type", `{properties: {a: {type: array, items: {type: string}}}}`, `{properties: {a: {type: string}}}`, []string{"breaking crd/type spec.a: type changed"}},
		{"fewer values", `{enum: [a, b, c]}`, `{enum: [a, c]}`, []string{"breaking crd/enum spec: fewer values are allowed"}},
		{"some values instead of any", `{type: string}`, `{type: string, enum: [a]}`, []string{"breaking crd/enum spec: fewer values are allowed"}},
		{"more values", `{enum: [a]}`, `{enum: [a, b]}`, []string{"change crd/enum spec: more values are allowed"}},
		{"values in another order", `{enum: [a, b]}`, `{enum: [b, a]}`, nil},
		{"a tighter maximum", `{maximum: 5}`, `{maximum: 4}`, []string{"breaking crd/maximum spec: maximum is tighter"}},
		{"a looser maximum", `{maximum: 5}`, `{maximum: 6}`, []string{"change crd/maximum spec: maximum is looser"}},
		{"a new maximum length", `{}`, `{maxLength: 4}`, []string{"breaking crd/maxlength spec: maxLength is tighter"}},
		{"removed maximum", `{maxItems: 4}`, `{}`, []string{"change crd/maxitems spec: maxItems is looser"}},
		{"a tighter minimum", `{minLength: 1}`, `{minLength: 2}`, []string{"breaking crd/minlength spec: minLength is tighter"}},
		{"a new default", `{}`, `{default: x}`, []string{"review crd/default spec: default added"}},
		{"another default", `{default: x}`, `{default: y}`, []string{"breaking crd/default spec: default changed"}},
		{"removed default", `{default: x}`, `{}`, []string{"breaking crd/default spec: default removed"}},
		{"a new pattern", `{}`, `{pattern: a}`, []string{"breaking crd/pattern spec: pattern added"}},
		{"another pattern", `{pattern: a}`, `{pattern: b}`, []string{"review crd/pattern spec: pattern changed"}},
		{"removed pattern", `{pattern: a}`, `{}`, []string{"change crd/pattern spec: pattern removed"}},
		{"a new format", `{}`, `{format: date}`, []string{"breaking crd/format spec: format added"}},
		{"null is rejected", `{nullable: true}`, `{}`, []string{"breaking crd/nullable spec: null is no longer allowed"}},
		{"null is allowed", `{}`, `{nullable: true}`, []string{"change crd/nullable spec: null is allowed"}},
		{"unknown fields are dropped", `{x-kubernetes-preserve-unknown-fields: true}`, `{}`, []string{"breaking crd/unknown-fields spec: unknown fields are no longer preserved"}},
		{"only strings", `{x-kubernetes-int-or-string: true}`, `{type: string}`, []string{"breaking crd/type spec: type changed", "breaking crd/int-or-string spec: no longer both integer and string"}},
		{"alternatives", `{anyOf: [{type: string}]}`, `{anyOf: [{type: integer}, {type: string}]}`, []string{"review crd/any-of spec: anyOf changed"}},
		{"keys of a list", `{x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a]}`, `{x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [b]}`, []string{"review crd/list-map-keys spec: list map keys changed"}},
		{"a new rule", `{x-kubernetes-validations: [{rule: a}]}`, `{x-kubernetes-validations: [{rule: b}, {rule: a}]}`, []string{"review crd/rules spec: validation rule added or changed"}},
		{"removed rule", `{x-kubernetes-validations: [{rule: a}, {rule: b}]}`, `{x-kubernetes-validations: [{rule: b}]}`, []string{"change crd/rules spec: validation rule removed"}},
		{"rules in another order", `{x-kubernetes-validations: [{rule: a}, {rule: b}]}`, `{x-kubernetes-validations: [{rule: b}, {rule: a}]}`, nil},
		{"another message of a rule", `{x-kubernetes-validations: [{rule: a, message: x}]}`, `{x-kubernetes-validations: [{rule: a, message: y}]}`, []string{"noise crd/rules spec: descriptions changed"}},
		{"another description", `{description: a}`, `{description: b}`, []string{"noise crd/description spec: descriptions changed"}},
		{"a parent's constraint beside alternatives", `{maxLength: 9, anyOf: [{type: string}]}`, `{maxLength: 3, anyOf: [{type: string}]}`, []string{"breaking crd/maxlength spec: maxLength is tighter"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, change := range schemaChanges("v1", schemaFrom(t, c.old), schemaFrom(t, c.now)) {
				got = append(got, fmt.Sprintf("%s %s %s: %s", change.Level, change.Rule, change.Path, change.Message))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// schemaFrom returns the schema of an object whose spec has the given schema.
func schemaFrom(t *testing.T, spec string) *schema {
	t.Helper()
	s := &schema{}
	if err := yaml.UnmarshalStrict([]byte("{type: object, properties: {spec: "+spec+"}}"), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConstraints_CoverEverySchemaField(t *testing.T) {
	// Properties are compared by path; structural schemas do not have the remaining
	// fields.
	compared := strings.Fields("properties items id $schema $ref patternProperties dependencies additionalItems definitions")
	for _, c := range constraints {
		compared = append(compared, c.field)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[schema]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); !slices.Contains(compared, name) {
			t.Errorf("%s is not compared", field.Name)
		}
	}
}
