// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
	"github.com/fluxcd/pkg/envsubst/parse"
)

// substitute replaces variable expressions in text with their values, as
// clusterctl does: in the text, before it is YAML. All that is not an expression
// stays as it is, byte for byte.
//
// An expression is "${", a name of letters, digits and underscores that does
// not begin with a digit, and then "}", or an operator of package envsubst and
// "}" on the same line: ${VAR}, ${VAR:=default}, ${VAR=default},
// ${VAR:-default}, ${VAR/old/new}, ${VAR^^} and so on; a default may hold
// expressions. Hence $VAR, $(VAR), $$(VAR), an escaped $${VAR}, ${ VAR },
// ${a.b} and an unclosed ${VAR are not expressions. (clusterctl makes ${VAR} of
// $${VAR}; here both dollars stay.)
//
// finding is called with the offset in text of each expression that has no value.
func substitute(text []byte, values map[string]string, finding func(offset int, err error)) []byte {
	if !bytes.Contains(text, []byte("${")) {
		return text
	}
	out := make([]byte, 0, len(text))
	offset := 0
	for line := range bytes.Lines(text) {
		done := 0
		for _, found := range expressions(line) {
			value, err := evaluate(string(line[found.start:found.end]), values)
			if err != nil {
				finding(offset+found.start, err)
			}
			out = append(append(out, line[done:found.start]...), value...)
			done = found.end
		}
		out = append(out, line[done:]...)
		offset += len(line)
	}
	return out
}

// span is where an expression begins in a line, and where it has ended.
type span struct{ start, end int }

// expressions finds the expressions in a line that are not part of another one.
func expressions(line []byte) (found []span) {
	var open []int
	for i := 1; i < len(line); i++ {
		switch {
		case line[i] == '{' && line[i-1] == '$':
			open = append(open, i-1)
		case line[i] == '}' && len(open) > 0:
			start := open[len(open)-1]
			open = open[:len(open)-1]
			if beginsExpression(line, start) {
				for len(found) > 0 && found[len(found)-1].start > start {
					found = found[:len(found)-1] // it is part of this one
				}
				found = append(found, span{start, i + 1})
			}
		}
	}
	return found
}

// beginsExpression says whether the "${" at start goes on as an expression does.
func beginsExpression(line []byte, start int) bool {
	if start > 0 && line[start-1] == '$' {
		return false // escaped
	}
	after := line[start+2:]
	length := len(leadingName(after))
	return length > 0 && length < len(after) && bytes.IndexByte([]byte("}:=,^/#%"), after[length]) >= 0
}

func isNameByte(b byte, first bool) bool {
	letter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b == '_'
	return letter || !first && '0' <= b && b <= '9'
}

// maxNested bounds the expressions in one expression, itself included.
const maxNested = 16

// evaluate returns the value of one expression.
func evaluate(expression string, values map[string]string) (string, error) {
	if strings.Count(expression, "${") > maxNested {
		return "", fmt.Errorf("variable expression %.80s… holds more than %d expressions", expression, maxNested)
	}
	tree, err := parse.Parse(expression)
	if err != nil {
		return "", fmt.Errorf("variable expression %s: %w", expression, err)
	}
	if err := answerable(tree.Root, values); err != nil {
		return "", fmt.Errorf("variable expression %s: %w", expression, err)
	}
	return envsubst.Eval(expression, func(name string) (string, bool) { return values[name], true })
}

// answerable returns an error if an expression asks for a variable that has
// neither a value nor a default. It refuses operators that do not do what they do in a
// shell, and those whose value could be out of all proportion to the expression.
func answerable(node parse.Node, values map[string]string) error {
	function, isFunction := node.(*parse.FuncNode)
	if !isFunction {
		return nil
	}
	value, isSet := values[function.Param]
	switch function.Name {
	case "=", ":=", ":-":
		if value != "" {
			return nil // the default is not looked at
		}
		return allAnswerable(function.Args, values)
	case ":", ":?", ":+":
		return fmt.Errorf("operator %q is not supported; the operator for a default is :=", function.Name)
	}
	if !isSet {
		return fmt.Errorf("variable %s has no value and no default; give it a value, or a default with ${%[1]s:=default}", function.Param)
	}
	for _, argument := range function.Args {
		if _, isText := argument.(*parse.TextNode); !isText {
			return fmt.Errorf("operator %q takes no expression", function.Name)
		}
	}
	return nil
}

func allAnswerable(nodes []parse.Node, values map[string]string) error {
	for _, node := range nodes {
		if err := answerable(node, values); err != nil {
			return err
		}
	}
	return nil
}
