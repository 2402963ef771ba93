// SPDX-License-Identifier: Apache-2.0

package crdchange

import (
	"fmt"
	"reflect"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
