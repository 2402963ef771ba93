// SPDX-License-Identifier: Apache-2.0

// Package variable parses and evaluates the variable expressions of provider
// manifests, such as ${VAR} and ${VAR:=default}, with clusterctl's grammar.
//
// An expression is "${", a name of letters, digits and underscores that does not
// begin with a digit, and then "}", or an operator of package envsubst, its
// operand and "}" on the same line: ${VAR}, ${VAR:=default}, ${VAR=default},
// ${VAR:-default}, ${VAR/old/new}, ${VAR^^} and so on. An operand can contain
// expressions. Hence $VAR, $(VAR), $$(VAR), the escaped $${VAR}, ${ VAR },
// ${VAR-default}, ${a.b} and an unclosed ${VAR are not expressions.
//
// clusterctl turns the escaped $${VAR} into ${VAR}; this package keeps both dollars.
package variable

import (
	"bytes"
	"iter"
)

// Expression is a variable expression in a text.
type Expression struct {
	// Name of the variable.
	Name string
	// Operator, such as ":=" or "/"; empty for ${VAR}.
	Operator string
	// Operand is the text after the operator, such as the default. It can contain expressions.
	Operand string
	// Text is the whole expression, from "${" to "}".
	Text string
	// Offset of the expression in the text that was read, in bytes.
	Offset int
}

// Default returns the default as written in the text, and reports whether there is
// one.
func (e Expression) Default() (string, bool) {
	switch e.Operator {
	case "=", ":=", ":-":
		return e.Operand, true
	}
	return "", false
}

// All returns the expressions of a text in order. It omits expressions in
// operands; AllNested includes them.
func All(text []byte) iter.Seq[Expression] {
	return func(yield func(Expression) bool) {
		if !Contains(text) {
			return
		}
		offset := 0
		for line := range bytes.Lines(text) {
			for _, at := range spans(line) {
				if !yield(expression(string(line[at.start:at.end]), offset+at.start)) {
					return
				}
			}
			offset += len(line)
		}
	}
}

// Contains reports whether a text may contain an expression, that is, contains
// "${".
func Contains(text []byte) bool { return bytes.Contains(text, []byte("${")) }

// AllNested returns the expressions of a text in order, each followed by those in
// its operand. The offset of an expression in an operand is that in the operand.
func AllNested(text []byte) iter.Seq[Expression] {
	return func(yield func(Expression) bool) { visit(text, yield) }
}

func visit(text []byte, yield func(Expression) bool) bool {
	for expression := range All(text) {
		if !yield(expression) || !visit([]byte(expression.Operand), yield) {
			return false
		}
	}
	return true
}

// Names returns the names of the variables in all expressions of a text,
// including expressions in operands.
func Names(text []byte) map[string]bool {
	names := map[string]bool{}
	for expression := range AllNested(text) {
		names[expression.Name] = true
	}
	return names
}

// operators are the operators of package envsubst, each before its own prefixes,
// so that the first match is the longest.
var operators = []string{":=", ":-", ":?", ":+", ":", "=", "^^", "^", ",,", ",", "//", "/#", "/%", "/", "##", "#", "%%", "%"}

func expression(text string, offset int) Expression {
	inner := text[len("${") : len(text)-len("}")]
	name := leadingName([]byte(inner))
	found := Expression{Name: string(name), Text: text, Offset: offset}
	rest := inner[len(name):]
	for _, operator := range operators {
		if len(rest) >= len(operator) && rest[:len(operator)] == operator {
			found.Operator, found.Operand = operator, rest[len(operator):]
			break
		}
	}
	return found
}

// span is the range of an expression in a line.
type span struct{ start, end int }

// spans finds the outermost expressions of a line. Each "}" closes the last open
// "${", so that braces in operands nest.
func spans(line []byte) (found []span) {
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
					found = found[:len(found)-1] // it is in the operand of this one
				}
				found = append(found, span{start, i + 1})
			}
		}
	}
	return found
}

// beginsExpression reports whether the "${" at start is followed by a name and an
// operator or "}", and is not escaped.
func beginsExpression(line []byte, start int) bool {
	if start > 0 && line[start-1] == '$' {
		return false
	}
	after := line[start+len("${"):]
	length := len(leadingName(after))
	return length > 0 && length < len(after) && bytes.IndexByte([]byte("}:=,^/#%"), after[length]) >= 0
}

// leadingName returns the variable name at the beginning of a text.
func leadingName(text []byte) []byte {
	length := 0
	for length < len(text) && isNameByte(text[length], length == 0) {
		length++
	}
	return text[:length]
}

func isNameByte(b byte, first bool) bool {
	letter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b == '_'
	return letter || !first && '0' <= b && b <= '9'
}
