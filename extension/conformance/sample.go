// SPDX-License-Identifier: Apache-2.0

package conformance

import "strings"

// minimal returns an object with the required fields of a schema.
func (s schemas) minimal(name string) map[string]any {
	return asObject(sampler{schemas: s}.value(s[name], 0))
}

// full returns an object with all fields of a schema.
func (s schemas) full(name string) map[string]any {
	return asObject(sampler{schemas: s, optional: true}.value(s[name], 0))
}

func asObject(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

// sampler makes up values of schemas.
type sampler struct {
	schemas
	// optional adds the optional fields.
	optional bool
}

// maxDepth limits values of schemas that contain themselves.
const maxDepth = 12

func (s sampler) value(of jsonSchema, depth int) any {
	if name, _ := of["$ref"].(string); name != "" {
		if value, known := sampleValues[strings.TrimPrefix(name, componentPath)]; known {
			return value
		}
	}
	of = s.merged(s.resolve(of))
	if values, _ := of["enum"].([]any); len(values) > 0 {
		return values[0]
	}
	switch of["type"] {
	case "object":
		return s.object(of, depth)
	case "array":
		item, _ := of["items"].(map[string]any)
		if depth > maxDepth {
			return []any{}
		}
		return []any{s.value(item, depth+1)}
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "string":
		return sampleText(of)
	}
	if _, has := of["x-kubernetes-int-or-string"]; has {
		return 1
	}
	return sampleWord
}

func (s sampler) object(of jsonSchema, depth int) map[string]any {
	result, needed := map[string]any{}, map[string]bool{}
	for _, name := range required(of) {
		if name, is := name.(string); is {
			needed[name] = true
		}
	}
	for name, property := range properties(of) {
		if child, is := property.(map[string]any); is && (needed[name] || s.optional && depth < maxDepth) {
			result[name] = sampleVersion(name, s.value(child, depth+1))
		}
	}
	if values, is := of["additionalProperties"].(map[string]any); is && s.optional {
		result["example"] = s.value(values, depth+1)
	}
	return result
}

// sampleVersion returns a Kubernetes version for the fields that have one: their schema allows any text, but Cluster
// API sends versions.
func sampleVersion(name string, value any) any {
	if strings.HasSuffix(strings.ToLower(name), "version") && name != "apiVersion" && value == sampleWord {
		return "v1.33.1"
	}
	return value
}

// sampleText returns a text in the format of a schema.
func sampleText(of jsonSchema) string {
	switch of["format"] {
	case "date-time":
		return "2026-01-01T00:00:00Z"
	case "byte":
		return "ZXhhbXBsZQ=="
	}
	return sampleWord
}

// sampleWord is the text of fields without a format.
const sampleWord = "example"

// sampleValues are values of schemas that have more rules than their schema says.
var sampleValues = map[string]any{
	"meta.v1.Duration":         "1m0s",
	"meta.v1.ObjectMeta":       map[string]any{"name": "example", "namespace": "default"},
	"meta.v1.Fields":           map[string]any{},
	"pkg.runtime.RawExtension": map[string]any{"apiVersion": "example.com/v1", "kind": "Example", "metadata": map[string]any{"name": "example"}},
}
