// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
)

// fieldOf returns a field of a schema by a path such as "status.addresses[].type". A field that can exist outside of
// the schema, because unknown fields are preserved, is hidden.
func fieldOf(schema Value, path string) (field Value, hidden bool) {
	for _, name := range strings.Split(path, ".") {
		name, isList := strings.CutSuffix(name, "[]")
		if open := schema.At("x-kubernetes-preserve-unknown-fields").Text() == "true"; open {
			hidden = true
		}
		schema = schema.At("properties", name)
		if isList {
			schema = schema.At("items")
		}
	}
	return schema, hidden && !schema.Exists()
}

// The types of fields in a schema.
const (
	aString   = "string"
	aBoolean  = "boolean"
	anInteger = "integer"
	anArray   = "array"
	anObject  = "object"
)

func typeOf(schema Value) string {
	if schema.At("x-kubernetes-int-or-string").Text() == "true" {
		return "integer or string"
	}
	return schema.At("type").Text()
}

func (d *definition) has(field string) bool {
	found, _ := fieldOf(d.Schema, field)
	return found.Exists()
}

// missing returns a finding for each field that is missing in the version that Cluster API uses.
func (d *definition) missing(fields ...string) (findings []Finding) {
	for _, field := range fields {
		if found, hidden := fieldOf(d.Schema, field); !found.Exists() && !hidden {
			findings = append(findings, found.finding("%s is missing in version %s, which Cluster API uses", field, d.Version))
		}
	}
	return findings
}

func (d *definition) mistyped(field string, types ...string) []Finding {
	found, _ := fieldOf(d.Schema, field)
	kind := typeOf(found)
	if !found.Exists() || kind == "" || slices.Contains(types, kind) {
		return nil
	}
	return []Finding{found.finding("%s is of type %s in version %s, not %s", field, kind, d.Version, strings.Join(types, " or "))}
}
