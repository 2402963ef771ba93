// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
)

var variableRules = []Rule{{
	ID:       "clusterctl/variables-default",
	Severity: Warning,
	Only:     FormBundle,
	Source:   clusterctl("Variables"),
	Why:      "A variable without a default needs a value in every cluster. Where none is given, nothing of the release is installed.",
	Fix:      "Give it a default with ${NAME:=default}, or have the installer given a value for it.",
	Check: func(b *Bundle) (findings []Finding) {
		for _, v := range b.Required {
			findings = append(findings, Finding{File: ManifestsFile, Line: v.Line, Message: "variable " + v.Name + " has no default"})
		}
		return findings
	},
}, {
	ID:       "clusterctl/variables-syntax",
	Severity: Error,
	Source:   clusterctl("Variables"),
	Why:      "Variables are replaced in the text before it is YAML. An expression that cannot be read keeps the whole provider from being installed.",
	Fix:      "Write ${NAME}, ${NAME:=default} or another expression that drone/envsubst knows; write $${ for a ${ that is no variable.",
	Check: eachVariableLine(func(line string) string {
		if _, err := envsubst.Eval(line, func(string) (string, bool) { return "", true }); err != nil {
			return "the variable expression cannot be read: " + err.Error()
		}
		return ""
	}),
}, {
	ID:       "clusterctl/variables-legacy-space",
	Severity: Warning,
	Source:   clusterctl("Variables"),
	Why:      "Spaces in ${ NAME } are of an old version of clusterctl. The installer leaves such an expression as it is.",
	Fix:      "Write ${NAME}.",
	Check: eachVariableLine(func(line string) string {
		if legacy := legacyVariable.FindString(line); legacy != "" {
			return "there are spaces in " + legacy
		}
		return ""
	}),
}, {
	ID:       "clusterctl/variables-prefix",
	Severity: Info,
	Source:   clusterctl("Variables"),
	Why:      "All providers of a cluster take their values from the same place. A name that begins with the provider's is taken by no other.",
	Fix:      "Begin the name with that of the provider, if the variable is not shared on purpose, as feature gates are.",
	Check:    checkVariablePrefix,
}, {
	ID:       "clusterctl/variables-in-crd",
	Severity: Warning,
	Source:   clusterctl("Variables"),
	Why:      "A ${…} in the description of a field is replaced like any other: the text is lost.",
	Fix:      "Write $${, or say it in other words.",
	Check: func(b *Bundle) []Finding {
		findings := eachVariableLine(func(line string) string {
			if anyVariable.MatchString(line) {
				return "a variable stands in a CRD"
			}
			return ""
		})(b)
		inCRD := findings[:0]
		for _, f := range findings {
			if o := b.objectAt(f.Line); o != nil && o.Kind == crdKind {
				f.Object = o.String()
				inCRD = append(inCRD, f)
			}
		}
		return inCRD
	},
}}

var (
	// legacyVariable has spaces within the braces.
	legacyVariable = regexp.MustCompile(`\$\{(\s+[A-Za-z_][A-Za-z0-9_]*\s*|[A-Za-z_][A-Za-z0-9_]*\s+)\}`)
	// anyVariable is an expression, of which the name is the only group.
	anyVariable = regexp.MustCompile(`(?:^|[^$])\$\{([A-Za-z_][A-Za-z0-9_]*)`)
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

// eachVariableLine checks the lines with expressions as they are written; a text says what is wrong.
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
