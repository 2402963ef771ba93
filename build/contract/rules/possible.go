// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capi-installer/capi-installer/build/contract"
)

// checkPossible creates two objects of each version of a CRD, as the API server does: one with the required fields, and one with all fields.
// They are as simple as possible, so a rejection means that the schema contradicts itself: no object can be created, or the field cannot
// be set. Constraints that cannot be fulfilled by construction, such as CEL rules and alternatives, are left out;
// checkUnfulfillable finds those that reject each value.
func checkPossible(d *contract.Definition) (findings []contract.Finding) {
	for _, version := range d.At("spec", "versions").Items() {
		at := version.At("schema", "openAPIV3Schema")
		if version.At("served").Text() != "true" || !at.Exists() {
			continue
		}
		hasStatus := version.At("subresources", "status").Node != nil
		findings = append(findings, checkUnfulfillable(version.At("name").Text(), at, hasStatus)...)
		all := rejectionsOf(at, withAllFields, false)
		if len(all) == 0 && (!hasStatus || !contract.Contains(at.At("required"), "status")) {
			continue // an object with fewer fields is possible too
		}
		required := rejectionsOf(at, withoutAlternatives, hasStatus)
		for _, problem := range required {
			findings = append(findings, schemaOf(at, problem.Field).Finding("no object of version %s can be created: %s: %s", version.At("name").Text(), problem.Field, explain(problem)))
		}
		if len(required) > 0 {
			continue
		}
		for _, problem := range all {
			findings = append(findings, schemaOf(at, problem.Field).Finding("a field of version %s cannot be set: %s: %s", version.At("name").Text(), problem.Field, explain(problem)).As(contract.Warning))
		}
	}
	return withoutInvalidSchemas(d, slices.Compact(findings))
}

// withoutInvalidSchemas drops the findings at schemas with an invalid keyword: crd/valid reports the cause.
func withoutInvalidSchemas(d *contract.Definition, findings []contract.Finding) []contract.Finding {
	if len(findings) == 0 {
		return nil
	}
	invalid := map[string]bool{}
	for _, cause := range checkValid(d) {
		if keyword := strings.LastIndex(cause.Field, "."); keyword > 0 {
			invalid[cause.Field[:keyword]] = true
		}
	}
	return slices.DeleteFunc(findings, func(f contract.Finding) bool { return invalid[f.Field] })
}

// rejectionsOf returns the API server's reasons to reject the simplest object of an edited schema; none if the schema cannot be read:
// another rule reports this.
func rejectionsOf(at contract.Value, edit func(map[string]any), hasStatus bool) field.ErrorList {
	schema := at.Map()
	if schema == nil {
		return nil
	}
	if properties, is := schema["properties"].(map[string]any); is {
		delete(properties, "metadata") // has only names: users choose them
	}
	eachSchema(schema, edit)
	props, err := contract.SchemaProps(schema)
	if err != nil {
		return nil
	}
	r, is := newCustomResource(props, hasStatus)
	if !is {
		return nil
	}
	value, _ := contract.MinimalOf(schema)
	object, _ := value.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	maps.Copy(object, map[string]any{"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "example"}})
	_, errs := r.create(object)
	for _, problem := range errs {
		problem.Field = strings.TrimPrefix(problem.Field, "<nil>") // the path of the whole object
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

// eachSchema edits a schema and the schemas of its fields and items.
func eachSchema(schema map[string]any, edit func(map[string]any)) {
	edit(schema)
	properties, _ := schema["properties"].(map[string]any)
	for _, child := range append(slices.Collect(maps.Values(properties)), schema["items"], schema["additionalProperties"]) {
		if child, is := child.(map[string]any); is {
			eachSchema(child, edit)
		}
	}
}

// withoutAlternatives removes the constraints that contract.MinimalOf cannot fulfil for certain. The remaining schema accepts more.
func withoutAlternatives(schema map[string]any) {
	for _, key := range []string{"x-kubernetes-validations", "allOf", "anyOf", "oneOf", "not", "multipleOf", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"} {
		delete(schema, key)
	}
	if schema["x-kubernetes-embedded-resource"] == true {
		clear(schema)
		schema["type"], schema["x-kubernetes-preserve-unknown-fields"] = contract.TypeObject, true
	}
	if schema["type"] == contract.TypeString {
		if _, guessed := contract.MinimalOf(schema); guessed {
			delete(schema, "pattern")
			delete(schema, "format")
		}
	}
}

// withAllFields also requires all fields, and an item or a field in each list and map.
func withAllFields(schema map[string]any) {
	withoutAlternatives(schema)
	delete(schema, "default") // would replace the field
	if properties, _ := schema["properties"].(map[string]any); len(properties) > 0 {
		required, _ := schema["required"].([]any)
		for name := range properties {
			required = append(required, name)
		}
		schema["required"] = required
		delete(schema, "minProperties")
		delete(schema, "maxProperties") // alternatives
	}
	for container, limits := range map[string][2]string{"items": {"minItems", "maxItems"}, "additionalProperties": {"minProperties", "maxProperties"}} {
		least, _ := schema[limits[0]].(float64)
		most, hasMost := schema[limits[1]].(float64)
		if _, has := schema[container].(map[string]any); has && least < 1 && (!hasMost || most >= 1) {
			schema[limits[0]] = 1.0
		}
	}
}

var indexOrKey = regexp.MustCompile(`\[[^\]]*\]`)

// schemaOf returns the schema of the field of an object; of the nearest field above it if it is not defined.
func schemaOf(schema contract.Value, path string) contract.Value {
	if path == "" {
		return schema
	}
	found, _ := contract.SchemaField(schema, indexOrKey.ReplaceAllString(path, "[]"))
	return found
}

// checkValid does the same as the API server when a CRD is created: it decodes, defaults and validates it. Another rule
// reports CRDs that cannot be decoded.
//
// The API server answers a request whose validation panics with an error, and continues; so does this check.
func checkValid(d *contract.Definition) (findings []contract.Finding) {
	defer func() {
		if cause := recover(); cause != nil {
			findings = append(findings, d.Finding("the validation of the API server failed: %v", cause))
		}
	}()
	if d.At("apiVersion").Text() != "apiextensions.k8s.io/v1" {
		return nil // reported by another rule
	}
	crd, decodes := decodeDefinition(d)
	if !decodes {
		return nil // reported by another rule
	}
	for _, problem := range validateDefinition(crd) {
		if !hasOtherRule(problem) {
			findings = append(findings, d.AtPath(problem.Field).Finding("%s", explain(problem)))
		}
	}
	return findings
}

// hasOtherRule reports whether another rule finds a problem too, or only the server does.
func hasOtherRule(problem *field.Error) bool {
	for _, prefix := range []string{"metadata.name", "metadata.labels", "metadata.annotations", "status"} {
		if strings.HasPrefix(problem.Field, prefix) {
			return true
		}
	}
	return false
}

// validateDefinition validates a CRD as the API server does when it is created.
func validateDefinition(crd *apiextensions.CustomResourceDefinition) field.ErrorList {
	return validation.ValidateCustomResourceDefinition(context.Background(), crd)
}
