// SPDX-License-Identifier: Apache-2.0

package variable

import (
	"bytes"
	"maps"
	"slices"
)

// Variable is a variable that a text uses.
type Variable struct {
	Name string `json:"name"`
	// Default is the first default in the text, as written; nil if no expression
	// has a default.
	Default *string `json:"default,omitempty"`
	// Required is true if an expression has no default, so that the cluster must
	// provide a value.
	Required bool `json:"required"`
}

// Variables returns the variables of a text, sorted by name, including those in
// operands.
func Variables(text []byte) []Variable {
	found := map[string]Variable{}
	for expression := range AllNested(text) {
		variable := found[expression.Name]
		variable.Name = expression.Name
		if fallback, hasDefault := expression.Default(); !hasDefault {
			variable.Required = true
		} else if variable.Default == nil {
			variable.Default = &fallback
		}
		found[expression.Name] = variable
	}
	variables := make([]Variable, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		variables = append(variables, found[name])
	}
	return variables
}

// Use is an expression that requires a value.
type Use struct {
	Name string
	// Line of the text, from 1.
	Line int
}

// ApplyDefaults replaces each expression that has a default by the default, and
// returns the remaining expressions: they require a value. It keeps the number
// of lines.
func ApplyDefaults(text []byte) ([]byte, []Use) {
	if !Contains(text) {
		return text, nil
	}
	var out []byte
	var required []Use
	line := 0
	for before := range bytes.Lines(text) {
		line++
		expanded := expand(before, maxNested)
		for left := range All(expanded) {
			required = append(required, Use{left.Name, line})
		}
		out = append(out, expanded...)
	}
	return out, required
}

// expand applies the defaults in a text, and recursively in those defaults, up to
// a depth.
func expand(text []byte, depth int) []byte {
	if depth == 0 {
		return text
	}
	var out []byte
	done := 0
	for expression := range All(text) {
		fallback, hasDefault := expression.Default()
		if !hasDefault {
			continue
		}
		out = append(append(out, text[done:expression.Offset]...), expand([]byte(fallback), depth-1)...)
		done = expression.Offset + len(expression.Text)
	}
	return append(out, text[done:]...)
}
