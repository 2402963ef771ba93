// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"regexp"
)

var variableRules = []Rule{{
	ID:       "clusterctl/variables-default",
	Severity: Warning,
	Source:   clusterctl("Variables"),
	Why:      "A variable without a default needs a value in every cluster. Where none is given, nothing of the release is installed.",
	Fix:      "Give it a default with ${NAME:=default}, or have the installer given a value for it.",
	Check: func(b *Bundle) (findings []Finding) {
		for _, v := range b.Required {
			findings = append(findings, Finding{File: ManifestsFile, Line: v.Line, Message: "variable " + v.Name + " has no default"})
		}
		return findings
	},
}}

var (
	// withDefault is an expression whose default holds no expression: ${A=x}, ${A:=x} or ${A:-x}.
	withDefault = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*(?:=|:=|:-)([^{}\n]*)\}`)
	// withoutDefault is one that needs a value: ${A}, or with another operator, ${A^^}.
	withoutDefault = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(?:[,^/#%][^{}\n]*)?\}`)
)

// maxNested bounds the expressions in one expression, itself included; the installer refuses more.
const maxNested = 16

// withDefaults puts the defaults of variables into a text, those of defaults
// first, and returns the variables that are left over. It adds and removes no line.
func withDefaults(text []byte) ([]byte, []Variable) {
	if !bytes.Contains(text, []byte("${")) {
		return text, nil
	}
	var out []byte
	var required []Variable
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = expand(line)
		for _, name := range requiredIn(line) {
			required = append(required, Variable{name, number})
		}
		out = append(out, line...)
	}
	return out, required
}

// expand puts the defaults into a line.
func expand(line []byte) []byte {
	for range maxNested {
		var out []byte
		done := 0
		for _, at := range withDefault.FindAllSubmatchIndex(line, -1) {
			if escaped(line, at[0]) {
				continue
			}
			out = append(append(out, line[done:at[0]]...), line[at[2]:at[3]]...)
			done = at[1]
		}
		if done == 0 {
			return line
		}
		line = append(out, line[done:]...)
	}
	return line
}

func requiredIn(line []byte) (names []string) {
	for _, at := range withoutDefault.FindAllSubmatchIndex(line, -1) {
		if !escaped(line, at[0]) {
			names = append(names, string(line[at[2]:at[3]]))
		}
	}
	return names
}

// escaped says whether the expression at start is none, as in $${A}.
func escaped(line []byte, start int) bool { return start > 0 && line[start-1] == '$' }
