// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"strings"

	"github.com/capi-installer/capi-installer/internal/variable"
)

// legacyVariable has spaces within the braces.
var legacyVariable = regexp.MustCompile(`\$\{(\s+[A-Za-z_][A-Za-z0-9_]*\s*|[A-Za-z_][A-Za-z0-9_]*\s+)\}`)

// hasVariable reports whether a text may depend on a variable, whose value is unknown.
func hasVariable(text string) bool { return variable.Contains([]byte(text)) }

// firstVariable returns the name of the first variable of a text; empty without variables.
func firstVariable(text string) string {
	for expression := range variable.All([]byte(text)) {
		return expression.Name
	}
	return ""
}

// withDefaults replaces variables in a text by their defaults, including variables within defaults, and returns the
// variables without default. It neither adds nor removes lines.
func withDefaults(text []byte) ([]byte, []Variable) {
	text, uses := variable.ApplyDefaults(text)
	var required []Variable
	for _, use := range uses {
		required = append(required, Variable{use.Name, use.Line})
	}
	return text, required
}

// eachVariableLine checks the lines with expressions before variables are replaced; check returns the message of a
// finding, or nothing.
func eachVariableLine(check func(line string) string) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		number := 0
		for line := range strings.Lines(string(b.text)) {
			number++
			if !hasVariable(line) {
				continue
			}
			if problem := check(line); problem != "" {
				findings = append(findings, Finding{File: ManifestsFile, Line: number, Message: problem})
			}
		}
		return findings
	}
}

// shared are variables that several providers use.
var shared = regexp.MustCompile(`^(EXP_.*|CLUSTER_TOPOLOGY|.*_DIAGNOSTICS_.*|K8S_CP_LABEL|TLS_.*)$`)

// checkVariablePrefix reports each variable once.
func checkVariablePrefix(b *Bundle) []Finding {
	words := strings.Split(strings.TrimPrefix(b.Metadata.ProviderName, "cluster-api-provider-"), "-")
	prefix, seen := strings.ToUpper(words[0]), map[string]bool{}
	var findings []Finding
	number := 0
	for line := range strings.Lines(string(b.text)) {
		number++
		for expression := range variable.AllNested([]byte(line)) {
			name := expression.Name
			if seen[name] || shared.MatchString(name) || strings.HasPrefix(name, prefix) || strings.HasPrefix(name, "CAP") {
				continue
			}
			seen[name] = true
			findings = append(findings, Finding{File: ManifestsFile, Line: number, Message: "variable " + name + " does not begin with " + prefix})
		}
	}
	return findings
}

// objectAt returns the object on a line; nil before the first object.
func (b *Bundle) objectAt(line int) *Object {
	var at *Object
	for _, o := range b.Objects {
		if o.line() > line {
			break
		}
		at = o
	}
	return at
}
