// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"strings"

	"github.com/capi-installer/capi-installer/internal/variable"
)

var (
	// legacyVariable has spaces within the braces.
	legacyVariable = regexp.MustCompile(`\$\{(\s+[A-Za-z_][A-Za-z0-9_]*\s*|[A-Za-z_][A-Za-z0-9_]*\s+)\}`)
	// anyVariable is an expression, of which the name is the only group.
	anyVariable = regexp.MustCompile(`(?:^|[^$])\$\{([A-Za-z_][A-Za-z0-9_]*)`)
)

// withDefaults puts the defaults of variables into a text, those of defaults
// first, and returns the variables that are left over. It adds and removes no line.
func withDefaults(text []byte) ([]byte, []Variable) {
	text, uses := variable.ApplyDefaults(text)
	var required []Variable
	for _, use := range uses {
		required = append(required, Variable{use.Name, use.Line})
	}
	return text, required
}

// eachVariableLine checks the lines with expressions as they are written; a non-empty text is the message of a finding.
func eachVariableLine(check func(line string) string) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		number := 0
		for line := range strings.Lines(string(b.text)) {
			number++
			if !strings.Contains(line, "${") {
				continue
			}
			if problem := check(line); problem != "" {
				findings = append(findings, Finding{File: ManifestsFile, Line: number, Message: problem})
			}
		}
		return findings
	}
}

// shared are variables that providers have in common.
var shared = regexp.MustCompile(`^(EXP_.*|CLUSTER_TOPOLOGY|.*_DIAGNOSTICS_.*|K8S_CP_LABEL|TLS_.*)$`)

// checkVariablePrefix tells of each variable once.
func checkVariablePrefix(b *Bundle) []Finding {
	words := strings.Split(strings.TrimPrefix(b.Metadata.ProviderName, "cluster-api-provider-"), "-")
	prefix, seen := strings.ToUpper(words[0]), map[string]bool{}
	var findings []Finding
	number := 0
	for line := range strings.Lines(string(b.text)) {
		number++
		if !strings.Contains(line, "${") {
			continue
		}
		for _, match := range anyVariable.FindAllStringSubmatch(line, -1) {
			name := match[1]
			if seen[name] || shared.MatchString(name) || strings.HasPrefix(name, prefix) || strings.HasPrefix(name, "CAP") {
				continue
			}
			seen[name] = true
			findings = append(findings, Finding{File: ManifestsFile, Line: number, Message: "variable " + name + " does not begin with " + prefix})
		}
	}
	return findings
}

// objectAt is the object that stands on a line, nil before the first.
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
