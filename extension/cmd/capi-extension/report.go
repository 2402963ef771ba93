// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extension/conformance"
)

// report is the data of "test".
type report struct {
	// Source is the URL of the server, or the program.
	Source string `json:"source"`
	// Counts has the number of findings of each severity.
	Counts   map[contract.Severity]int `json:"counts"`
	Handlers []handler                 `json:"handlers"`
	// Results are the results of each rule, for the server and for each handler.
	Results []conformance.Result `json:"results"`
}

// handler is a handler of the server.
type handler struct {
	Name     string `json:"name"`
	Hook     string `json:"hook"`
	Version  string `json:"version"`
	Blocking bool   `json:"blocking"`
	Path     string `json:"path"`
}

// newReport returns the report about a conversation with a server. Findings below a severity are counted and omitted.
func newReport(t *conformance.Transcript, source string, least contract.Severity) report {
	r := report{Source: source, Counts: map[contract.Severity]int{}, Handlers: []handler{}, Results: conformance.Check(t, source)}
	for _, h := range t.Handlers {
		r.Handlers = append(r.Handlers, handler{h.Name, h.Hook.Name, h.Hook.Version, h.Hook.Blocking, h.Path()})
	}
	for _, finding := range conformance.Findings(r.Results) {
		r.Counts[finding.Severity]++
	}
	for i := range r.Results {
		r.Results[i].Findings = slices.DeleteFunc(r.Results[i].Findings, func(f contract.Finding) bool { return !f.Severity.AtLeast(least) })
	}
	return r
}

// unchecked returns the reason why a rule was not checked; empty if it was.
func (r report) unchecked(rule string) string {
	reason := "not checked: the server has no handler that the rule is about"
	for _, result := range r.Results {
		if result.Rule == rule && result.Outcome != conformance.Skipped {
			return ""
		}
		if result.Rule == rule {
			reason = "not checked: answers are missing"
		}
	}
	return reason
}

// summary is the number of findings of each severity, or the number of checked rules.
func (r report) summary() string {
	var parts []string
	for _, severity := range contract.Severities() {
		switch count := r.Counts[severity]; {
		case count == 1:
			parts = append(parts, "1 "+string(severity))
		case count > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", count, severity))
		}
	}
	if len(parts) > 0 {
		return strings.Join(parts, ", ")
	}
	checked := 0
	for _, rule := range conformance.Rules() {
		if r.unchecked(rule.ID) == "" {
			checked++
		}
	}
	return fmt.Sprintf("no findings, %d rules checked", checked)
}

// writers are the output formats by their names.
var writers = map[string]func(report) ([]byte, error){"text": text, "json": encode, "junit": junit}

// encode writes JSON. Characters that are not printable are escaped, so that an answer of the server cannot control a terminal.
func encode(r report) ([]byte, error) {
	plain, err := json.MarshalIndent(r, "", "  ")
	var out bytes.Buffer
	for _, c := range string(plain) {
		if c == '\n' || unicode.IsPrint(c) {
			out.WriteRune(c)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, c) {
			fmt.Fprintf(&out, "\\u%04x", unit)
		}
	}
	return append(out.Bytes(), '\n'), err
}

// text writes a line for each finding, the worst first, and then the fixes of the violated rules.
func text(r report) ([]byte, error) {
	var lines, fixes bytes.Buffer
	fixed := map[string]bool{}
	for _, f := range conformance.Findings(r.Results) {
		fmt.Fprintln(&lines, line(f))
		if !fixed[f.Rule] {
			fmt.Fprintf(&fixes, "\n%s\n    %s\n", f.Rule, f.Fix)
		}
		fixed[f.Rule] = true
	}
	return append(lines.Bytes(), fixes.Bytes()...), nil
}

// line returns a finding as a line.
func line(f contract.Finding) string {
	where := strings.TrimSpace(f.Object + " " + f.Field)
	return printable(fmt.Sprintf("%s: %s: %s: %s [%s]", f.File, f.Severity, where, f.Message, f.Rule))
}

// printable replaces characters that control a terminal, and joins lines.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r':
			return ' '
		case unicode.IsPrint(r):
			return r
		default:
			return unicode.ReplacementChar
		}
	}, text)
}

// The part of JUnit's XML that CI systems read: a case for each rule. A case fails if the rule has a finding of severity error;
// other findings are its output.
type (
	suites struct {
		XMLName xml.Name `xml:"testsuites"`
		Suite   suite    `xml:"testsuite"`
	}
	suite struct {
		Name  string     `xml:"name,attr"`
		Tests int        `xml:"tests,attr"`
		Cases []testCase `xml:"testcase"`
	}
	testCase struct {
		Name    string   `xml:"name,attr"`
		Class   string   `xml:"classname,attr"`
		Failure *message `xml:"failure,omitempty"`
		Skipped *message `xml:"skipped,omitempty"`
		Output  string   `xml:"system-out,omitempty"`
	}
	message struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

func junit(r report) ([]byte, error) {
	all := suites{Suite: suite{Name: printable(r.Source)}}
	for _, rule := range conformance.Rules() {
		all.Suite.Cases = append(all.Suite.Cases, r.junitCase(rule.Rule))
		all.Suite.Tests++
	}
	encoded, err := xml.MarshalIndent(all, "", "  ")
	return append([]byte(xml.Header), append(encoded, '\n')...), err
}

func (r report) junitCase(rule contract.Rule) testCase {
	test, failed := testCase{Name: rule.ID, Class: "capi-extension"}, false
	for _, f := range conformance.Findings(r.Results) {
		if f.Rule == rule.ID {
			test.Output += line(f) + "\n"
			failed = failed || f.Severity == contract.Error
		}
	}
	if failed {
		test.Failure, test.Output = &message{rule.Fix, test.Output}, ""
	}
	if reason := r.unchecked(rule.ID); reason != "" {
		test.Skipped = &message{Message: reason}
	}
	return test
}
