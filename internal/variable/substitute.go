// SPDX-License-Identifier: Apache-2.0

package variable

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
	"github.com/fluxcd/pkg/envsubst/parse"
)

// Substitute replaces the expressions of a text by their values, before the text
// is parsed as YAML, as clusterctl does. All other bytes are unchanged.
//
// For each expression that it cannot evaluate, it calls finding with the offset
// in the text, and removes the expression.
func Substitute(text []byte, values map[string]string, finding func(offset int, err error)) []byte {
	if !Contains(text) {
		return text
	}
	out := make([]byte, 0, len(text))
	done := 0
	for expression := range All(text) {
		value, err := evaluate(expression.Text, values)
		if err != nil {
			finding(expression.Offset, err)
		}
		out = append(append(out, text[done:expression.Offset]...), value...)
		done = expression.Offset + len(expression.Text)
	}
	return append(out, text[done:]...)
}

// maxNested limits the number of expressions in one expression, including the
// outermost.
const maxNested = 16

// evaluate returns the value of one expression.
func evaluate(expression string, values map[string]string) (string, error) {
	if strings.Count(expression, "${") > maxNested {
		return "", fmt.Errorf("variable expression %.80s… contains more than %d expressions", expression, maxNested)
	}
	tree, err := parse.Parse(expression)
	if err != nil {
		return "", fmt.Errorf("invalid variable expression %s: %w", expression, err)
	}
	if err := checkNode(tree.Root, values); err != nil {
		return "", fmt.Errorf("variable expression %s: %w", expression, err)
	}
	return envsubst.Eval(expression, func(name string) (string, bool) { return values[name], true })
}

// checkNode returns an error if a variable has neither a value nor a default. It
// rejects operators that behave differently in a shell, and operands that could
// make the value much longer than the expression.
func checkNode(node parse.Node, values map[string]string) error {
	function, isFunction := node.(*parse.FuncNode)
	if !isFunction {
		return nil
	}
	value, isSet := values[function.Param]
	switch function.Name {
	case "=", ":=", ":-":
		if value != "" {
			return nil // the default is not used
		}
		return checkNodes(function.Args, values)
	case ":", ":?", ":+":
		return fmt.Errorf("unsupported operator %q; use := for a default", function.Name)
	}
	if !isSet {
		return fmt.Errorf("variable %s has no value and no default; set a value, or add a default with ${%[1]s:=default}", function.Param)
	}
	for _, argument := range function.Args {
		if _, isText := argument.(*parse.TextNode); !isText {
			return fmt.Errorf("the operand of operator %q must not contain an expression", function.Name)
		}
	}
	return nil
}

func checkNodes(nodes []parse.Node, values map[string]string) error {
	for _, node := range nodes {
		if err := checkNode(node, values); err != nil {
			return err
		}
	}
	return nil
}

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
