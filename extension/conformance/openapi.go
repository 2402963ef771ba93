// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	_ "embed" // the schemas
	"encoding/json"
	"strings"
	"sync"
)

// schemasJSON has the schemas of all requests and responses, and of the types that they use.
//
//go:embed schemas.json
var schemasJSON []byte

// jsonSchema is a schema of OpenAPI 3.0 as decoded JSON.
type jsonSchema = map[string]any

// schemas are schemas by their names in an OpenAPI document.
type schemas map[string]jsonSchema

const componentPath = "#/components/schemas/"

var hookSchemas = sync.OnceValue(func() schemas {
	all := schemas{}
	if err := json.Unmarshal(schemasJSON, &all); err != nil {
		panic(err) // a generated file of the program
	}
	for name := range all {
		all[name] = all.merged(all[name])
	}
	return all
})

// merged returns a schema with the fields of the types embedded in it (allOf).
func (s schemas) merged(own jsonSchema) jsonSchema {
	parts, _ := own["allOf"].([]any)
	if len(parts) == 0 {
		return own
	}
	result := jsonSchema{"type": "object", "properties": map[string]any{}}
	for _, part := range parts {
		embedded, _ := part.(map[string]any)
		merge(result, s.merged(s.resolve(embedded)))
	}
	merge(result, own)
	return result
}

// merge adds the fields of another schema.
func merge(into, from jsonSchema) {
	for name, property := range properties(from) {
		properties(into)[name] = property
	}
	if required := append(required(into), required(from)...); len(required) > 0 {
		into["required"] = required
	}
	if description, has := from["description"]; has {
		into["description"] = description
	}
}

// resolve follows the reference of a schema.
func (s schemas) resolve(own jsonSchema) jsonSchema {
	if name, has := own["$ref"].(string); has {
		return s[strings.TrimPrefix(name, componentPath)]
	}
	return own
}

func properties(of jsonSchema) map[string]any {
	fields, _ := of["properties"].(map[string]any)
	return fields
}

func required(of jsonSchema) []any {
	names, _ := of["required"].([]any)
	return names
}

// OpenAPI returns the OpenAPI document of hooks: their paths, requests and responses.
func OpenAPI(hooks []Hook) map[string]any {
	all, paths, used := hookSchemas(), map[string]any{}, schemas{}
	for _, h := range hooks {
		paths[h.Path] = map[string]any{"post": h.operation()}
		all.collect(all[h.schema(h.Request)], h.schema(h.Request), used)
		all.collect(all[h.schema(h.Response)], h.schema(h.Response), used)
	}
	return map[string]any{
		"openapi": "3.0.0",
		"info": map[string]any{
			"title": "Cluster API - Runtime SDK", "version": clusterAPIVersion,
			"description": "The Runtime Hooks of Cluster API, for the authors of Runtime Extensions.",
		},
		"paths":      paths,
		"components": map[string]any{"schemas": used},
	}
}

// clusterAPIVersion is the version of Cluster API with these hooks. A test compares it with go.mod.
const clusterAPIVersion = "v1.14.2"

// operation is the POST operation of a hook.
func (h Hook) operation() map[string]any {
	body := func(kind string) map[string]any {
		return map[string]any{"application/json": map[string]any{"schema": map[string]any{"$ref": componentPath + h.schema(kind)}}}
	}
	operation := map[string]any{
		"operationId": h.Name, "summary": h.Summary, "description": h.description, "tags": h.tags, "deprecated": h.Deprecated,
		"requestBody": map[string]any{"required": true, "content": body(h.Request)},
		"responses":   map[string]any{"200": map[string]any{"description": "OK", "content": body(h.Response)}},
	}
	if strings.Contains(h.Path, "{name}") {
		operation["parameters"] = []any{map[string]any{
			"name": "name", "in": "path", "required": true, "description": "The name of the handler, as in the answer of the hook Discovery.",
			"schema": map[string]any{"type": "string"},
		}}
	}
	return operation
}

// collect adds a schema, and those that it refers to.
func (s schemas) collect(own jsonSchema, name string, used schemas) {
	if _, known := used[name]; known {
		return
	}
	used[name] = own
	eachReference(own, func(target string) { s.collect(s[target], target, used) })
}

// eachReference calls visit with the name of every schema that a part of a schema refers to.
func eachReference(part any, visit func(name string)) {
	switch part := part.(type) {
	case map[string]any:
		if target, is := part["$ref"].(string); is {
			visit(strings.TrimPrefix(target, componentPath))
		}
		for _, child := range part {
			eachReference(child, visit)
		}
	case []any:
		for _, child := range part {
			eachReference(child, visit)
		}
	}
}
