// SPDX-License-Identifier: Apache-2.0

package variable

import (
	"fmt"
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
