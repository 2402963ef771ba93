// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// deviation is a difference of an answer from the schema of the response. Wrong types are errors of decoding.
type deviation int

const (
	missingField deviation = iota
	unknownResponseField
)

// schemaProblems makes a check of the answer to the real request against the schema of the response.
func schemaProblems(kind deviation) func(*Handler) []Problem {
	return func(h *Handler) []Problem {
		answer := h.first(Real).object()
		if answer == nil {
			return nil
		}
		var found []Problem
		all := hookSchemas()
		all.compare(all[h.Hook.schema(h.Hook.Response)], answer, "", func(d deviation, field, message string) {
			if d == kind {
				found = append(found, problem(field, "%s", message))
			}
		})
		return sorted(found)
	}
}

// compare reports the fields that an object of a schema lacks, or has in addition.
func (s schemas) compare(of jsonSchema, value any, field string, report func(d deviation, field, message string)) {
	of = s.merged(s.resolve(of))
	switch value := value.(type) {
	case map[string]any:
		s.compareObject(of, value, field, report)
	case []any:
		item, _ := of["items"].(map[string]any)
		for i, element := range value {
			s.compare(item, element, fmt.Sprintf("%s[%d]", field, i), report)
		}
	}
}

func (s schemas) compareObject(of jsonSchema, value map[string]any, field string, report func(d deviation, field, message string)) {
	known := properties(of)
	for _, name := range required(of) {
		name, _ := name.(string)
		if _, has := value[name]; !has {
			report(missingField, child(field, name), "the required field is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(value)) {
		property, isKnown := known[name].(map[string]any)
		switch {
		case isKnown:
			s.compare(property, value[name], child(field, name), report)
		case len(known) > 0 && of["x-kubernetes-preserve-unknown-fields"] != true && of["additionalProperties"] == nil:
			report(unknownResponseField, child(field, name), "the response has no such field")
		}
	}
}

func child(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// differences returns a problem for each field that differs between two objects, except some. The format has one verb for the field.
func differences(a, b map[string]any, format string, except ...string) (found []Problem) {
	names := map[string]any{}
	maps.Copy(names, a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !slices.Contains(except, name) && !reflect.DeepEqual(a[name], b[name]) {
			found = append(found, problem(name, format, name))
		}
	}
	return found
}
