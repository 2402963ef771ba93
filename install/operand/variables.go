// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"bytes"
	"fmt"

	"github.com/fluxcd/pkg/envsubst"
	"github.com/fluxcd/pkg/envsubst/parse"
)

// substitute replaces variable expressions in text with their values, as
// clusterctl does: in the text, before it is YAML. All that is not an expression
// stays as it is, byte for byte.
//
// An expression is "${", a name of letters, digits and underscores that does
// not begin with a digit, and then "}" or one of the operators of package
// envsubst and "}" on the same line: ${VAR}, ${VAR:=default}, ${VAR=default},
// ${VAR:-default}, ${VAR/old/new}, ${VAR^^} and so on; a default may hold
// expressions. Hence $VAR, $(VAR), $$(VAR), an escaped $${VAR}, ${ VAR },
// ${a.b} and an unclosed ${VAR are not expressions. (clusterctl makes ${VAR} of
// $${VAR}; here both dollars stay.)
//
// finding is called with the offset in text of each expression that has no value.
func substitute(text []byte, values map[string]string, finding func(offset int, err error)) []byte {
	var out []byte
	done := 0
	for at := nextExpression(text, 0); at >= 0; {
		length := expressionLength(text[at:])
		if length == 0 || at > 0 && text[at-1] == '$' {
			at = nextExpression(text, at+2)
			continue
		}
		value, err := evaluate(string(text[at:at+length]), values)
		if err != nil {
			finding(at, err)
		}
		out = append(append(out, text[done:at]...), value...)
		done = at + length
		at = nextExpression(text, done)
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

func nextExpression(text []byte, from int) int {
	at := bytes.Index(text[from:], []byte("${"))
	if at < 0 {
		return -1
	}
	return from + at
}

// expressionLength is the length of the expression at the start of text, 0 if
// there is none.
func expressionLength(text []byte) int {
	name := 2
	for name < len(text) && isNameByte(text[name], name == 2) {
		name++
	}
	if name == 2 || name == len(text) || !bytes.ContainsRune([]byte("}:=,^/#%"), rune(text[name])) {
		return 0
	}
	depth := 1
	for i := name; i < len(text) && text[i] != '\n'; i++ {
		switch {
		case text[i] == '{' && text[i-1] == '$':
			depth++
		case text[i] == '}':
			depth--
		}
		if depth == 0 {
			return i + 1
		}
	}
	return 0
}

func isNameByte(b byte, first bool) bool {
	letter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b == '_'
	return letter || !first && '0' <= b && b <= '9'
}

// evaluate returns the value of one expression.
func evaluate(expression string, values map[string]string) (string, error) {
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
// neither a value nor a default, or uses an operator that would not do what it
// does in a shell.
func answerable(node parse.Node, values map[string]string) error {
	switch node := node.(type) {
	case *parse.ListNode:
		return allAnswerable(node.Nodes, values)
	case *parse.FuncNode:
		value, isSet := values[node.Param]
		switch node.Name {
		case "=", ":=", ":-":
			if value != "" {
				return nil // the default is not looked at
			}
		case ":?", ":+":
			return fmt.Errorf("operator %q is not supported; use :=", node.Name)
		default:
			if !isSet {
				return fmt.Errorf("variable %s has no value and no default; give it a value, or a default with ${%[1]s:=default}", node.Param)
			}
		}
		return allAnswerable(node.Args, values)
	default:
		return nil
	}
}

func allAnswerable(nodes []parse.Node, values map[string]string) error {
	for _, node := range nodes {
		if err := answerable(node, values); err != nil {
			return err
		}
	}
	return nil
}
