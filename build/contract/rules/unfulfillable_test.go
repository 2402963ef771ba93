// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"testing"

	"sigs.k8s.io/yaml"
)

func TestIsConstantFalse(t *testing.T) {
	for expression, want := range map[string]bool{
		"false": true, "1 > 2": true, "false && self.size() > 0": true, "self == 'a' && false": true, "'a' == 'b' || !true": true, "[1].all(x, x > 1)": true,
		"true": false, "self == 'a'": false, "self != self": false, "self == oldSelf": false, "false || self": false, "self.size(": false, "size(self) < 0": false,
		"'false'": false, "has(self.a) ? false : true": false,
	} {
		if got := isConstantFalse(expression); got != want {
			t.Errorf("%s: got %v, want %v", expression, got, want)
		}
	}
}

func TestIsImplied(t *testing.T) {
	for text, want := range map[string]bool{
		"{type: string, not: {minLength: 0}}":                                                     true,
		"{type: string, not: {description: x}}":                                                   true,
		"{type: string, minLength: 3, not: {minLength: 2}}":                                       true,
		"{type: string, maxLength: 3, not: {maxLength: 3}}":                                       true,
		"{type: string, pattern: a, not: {pattern: a}}":                                           true,
		"{type: string, enum: [a, b], not: {enum: [b, a, c]}}":                                    true,
		"{type: integer, minimum: 1, not: {minimum: 1}}":                                          true,
		"{type: integer, minimum: 2, not: {minimum: 1, exclusiveMinimum: true}}":                  true,
		"{type: object, required: [a, b], properties: {a: {}}, not: {required: [a]}}":             true,
		"{type: object, properties: {a: {type: string}}, not: {properties: {a: {minLength: 0}}}}": true,
		"{type: array, items: {maxLength: 2}, not: {items: {maxLength: 3}}}":                      true,

		"{type: string, not: {minLength: 1}}":                                                                    false,
		"{type: string, not: {maxLength: 3}}":                                                                    false,
		"{type: string, nullable: true, not: {minLength: 0}}":                                                    false,
		"{type: string, pattern: a, not: {pattern: b}}":                                                          false,
		"{type: string, enum: [a, b], not: {enum: [a]}}":                                                         false,
		"{type: string, not: {enum: ['']}}":                                                                      false,
		"{type: integer, minimum: 1, not: {minimum: 1, exclusiveMinimum: true}}":                                 false,
		"{type: integer, minimum: 1, not: {maximum: 1}}":                                                         false,
		"{type: object, required: [a], not: {required: [a, b]}}":                                                 false,
		"{type: object, required: [a], properties: {a: {}}, not: {required: [a], properties: {a: {enum: [x]}}}}": false,
		"{type: object, not: {anyOf: [{required: [a]}]}}":                                                        false,
		"{type: object, properties: {b: {}}, not: {properties: {a: {minLength: 0}}}}":                            false,
	} {
		var schema map[string]any
		if err := yaml.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatal(err)
		}
		not, _ := schema["not"].(map[string]any)
		if got := isImplied(not, schema); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
