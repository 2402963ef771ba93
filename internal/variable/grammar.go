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
	"slices"
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
	if !bytes.Contains(line, []byte("${")) { // most lines
		return nil
	}
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

// Source describes where the installer reads the value of a variable.
type Source string

// The sources of values.
const (
	TLSProfile Source = "TLS profile in APIServer `cluster`"
	Proxy      Source = "Proxy `cluster`, or else the environment of the installer"
	Fixed      Source = "the same in every cluster"
)

// Provided is a variable that has a value in every cluster, so that manifests need no default for it.
type Provided struct {
	Name   string
	Source Source
	// Value is the value of a Fixed variable; empty for the others.
	Value string
}

// All variables that cluster-capi-operator sets are here with its values: a value that differs restarts pods when the
// installer replaces that operator.
var provided = []Provided{
	{Name: "TLS_MIN_VERSION", Source: TLSProfile},
	{Name: "TLS_CIPHER_SUITES", Source: TLSProfile},
	{Name: "EXP_BOOTSTRAP_FORMAT_IGNITION", Source: Fixed, Value: "true"}, // without it, the AWS provider rejects machines of OpenShift
	{Name: "HTTP_PROXY", Source: Proxy},
	{Name: "HTTPS_PROXY", Source: Proxy},
	{Name: "NO_PROXY", Source: Proxy},
}

// AllProvided returns the variables that have a value in every cluster.
func AllProvided() []Provided { return slices.Clone(provided) }

// IsProvided reports whether a variable has a value in every cluster.
func IsProvided(name string) bool {
	return slices.ContainsFunc(provided, func(p Provided) bool { return p.Name == name })
}

// Values returns the values of the provided variables. sources has the values from each source other than Fixed, by the
// name of the variable; a missing value is empty.
func Values(sources map[Source]map[string]string) map[string]string {
	values := map[string]string{}
	for _, variable := range provided {
		values[variable.Name] = variable.Value
		if variable.Source != Fixed {
			values[variable.Name] = sources[variable.Source][variable.Name]
		}
	}
	return values
}

// SourceOf returns the source of a variable that has a value in every cluster, and "" for any other variable.
func SourceOf(name string) Source {
	for _, p := range provided {
		if p.Name == name {
			return p.Source
		}
	}
	return ""
}
