// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// SchemaField returns a field of a schema by a path such as "status.addresses[].type", or "status.failureDomains{}" for the values of
// a map. A field that can exist outside of
// the schema, because unknown fields are preserved, is hidden.
func SchemaField(schema Value, path string) (field Value, hidden bool) {
	for _, name := range strings.Split(path, ".") {
		name, isList := strings.CutSuffix(name, "[]")
		name, isMap := strings.CutSuffix(name, "{}")
		if open := schema.At("x-kubernetes-preserve-unknown-fields").Text() == "true"; open {
			hidden = true
		}
		schema = schema.At("properties", name)
		if isList {
			schema = schema.At("items")
		}
		if isMap {
			schema = schema.At("additionalProperties")
		}
	}
	return schema, hidden && !schema.Exists()
}

// The types of fields in a schema.
const (
	TypeString  = "string"
	TypeBoolean = "boolean"
	TypeInteger = "integer"
	TypeArray   = "array"
	TypeObject  = "object"
)

// SchemaType returns the type in a schema, for messages too.
func SchemaType(schema Value) string {
	if schema.At("x-kubernetes-int-or-string").Text() == "true" {
		return "integer or string"
	}
	return schema.At("type").Text()
}

// SchemaProps returns a schema, a Value or decoded JSON, as the API server has it in memory. Cluster API's own fields, such as x-metadata, are ignored.
func SchemaProps(schema any) (*apiextensions.JSONSchemaProps, error) {
	var versioned apiextensionsv1.JSONSchemaProps
	data, err := json.Marshal(schema)
	if err == nil {
		err = json.Unmarshal(data, &versioned)
	}
	if err != nil {
		return nil, err
	}
	props := &apiextensions.JSONSchemaProps{}
	return props, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&versioned, props, nil)
}

// HasField reports whether the version that Cluster API uses has a field.
func (d *Definition) HasField(field string) bool {
	found, _ := SchemaField(d.Schema, field)
	return found.Exists()
}

// Missing returns a finding for each field that is missing in the version that Cluster API uses.
func (d *Definition) Missing(fields ...string) (findings Findings) {
	for _, field := range fields {
		if found, hidden := SchemaField(d.Schema, field); !found.Exists() && !hidden {
			findings = append(findings, found.Finding("%s is missing in version %s, which Cluster API uses", field, d.Version)...)
		}
	}
	return findings
}

// Mistyped returns a finding for a field with another type in the version that Cluster API uses.
func (d *Definition) Mistyped(field string, types ...string) Findings {
	found, _ := SchemaField(d.Schema, field)
	kind := SchemaType(found)
	if !found.Exists() || kind == "" || slices.Contains(types, kind) {
		return nil
	}
	return found.Finding("%s is of type %s in version %s, not %s", field, kind, d.Version, strings.Join(types, " or "))
}
