// SPDX-License-Identifier: Apache-2.0

// Package findings reports violations of the rules of build/contract/rules as text,
// JSON, SARIF, JUnit or GitHub annotations, and applies baselines and waivers.
package findings

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
)

// Report is the data of validate, as in schema/validation.json.
type Report struct {
	// Schema is schema.Validation.
	Schema string `json:"$schema"`
	// Source is the image by digest, or the path.
	Source string `json:"source"`
	// Counts has the number of findings of each severity, including those that are
	// not shown.
	Counts map[contract.Severity]int `json:"counts"`
	// Accepted is the number of findings that are waived or in the baseline, in
	// addition to Counts.
	Accepted int      `json:"accepted"`
	Bundles  []Bundle `json:"bundles"`

	// ToolVersion is the version of the program.
	ToolVersion string `json:"-"`
	// Invalid is true if the source cannot be read.
	Invalid bool `json:"-"`
}

// Bundle has the findings of one bundle, or of one clusterctl release.
type Bundle struct {
	Profile string `json:"profile,omitempty"`
	// Release is the path of a clusterctl release relative to the source; empty for
	// a bundle.
	Release string `json:"release,omitempty"`
	// Metadata is nil if the bundle could not be parsed.
	Metadata *extractor.Metadata `json:"metadata,omitempty"`
	// Findings have the path of the file; in an image, it is relative to the
	// image's root.
	Findings []contract.Finding `json:"findings"`
	// Accepted are the findings that are waived or in the baseline.
	Accepted []Accepted `json:"accepted,omitempty"`

	// AskedServer is true if an API server checked the bundle too.
	AskedServer bool `json:"-"`
}

// unchecked returns the reason why a rule was not checked; empty if it was checked.
func (b Bundle) unchecked(rule contract.Rule) string {
	switch {
	case b.Metadata == nil && rule.Checker != contract.CheckerExtractor:
		return "not checked: the bundle is unreadable"
	case !b.AskedServer && rule.Checker == contract.CheckerServer:
		return "not checked: requires --against"
	}
	return ""
}

// name returns the name of the provider; empty if unknown.
func (b Bundle) name() string {
	if b.Metadata == nil {
		return ""
	}
	return b.Metadata.ProviderName
}

// Accepted is a finding that is waived or in the baseline.
type Accepted struct {
	contract.Finding
	// Reason is the reason of the waiver; empty for a finding of the baseline.
	Reason string `json:"reason,omitempty"`
}

// Count updates Counts.
func (v *Report) Count() {
	v.Counts, v.Accepted = map[contract.Severity]int{}, 0
	for _, severity := range contract.Severities() {
		v.Counts[severity] = 0
	}
	for _, bundle := range v.Bundles {
		v.Accepted += len(bundle.Accepted)
		for _, finding := range bundle.Findings {
			v.Counts[finding.Severity]++
		}
	}
}

// Found reports whether there are any findings.
func (v *Report) Found() bool { return len(v.all()) > 0 }

// DropBelow removes findings below a severity. Counts does not change.
func (v *Report) DropBelow(least contract.Severity) {
	for i := range v.Bundles {
		v.Bundles[i].Findings = AtLeast(v.Bundles[i].Findings, least)
	}
}

// AtLeast returns the findings of a severity or a higher one. It changes the list.
func AtLeast(all []contract.Finding, least contract.Severity) []contract.Finding {
	return slices.DeleteFunc(all, func(f contract.Finding) bool { return !f.Severity.AtLeast(least) })
}

// Format is the format of findings. The zero value is text.
type Format string

// The formats.
const (
	Text   Format = ""
	JSON   Format = "json"
	SARIF  Format = "sarif"
	JUnit  Format = "junit"
	GitHub Format = "github"
)

// Formats are the names of the formats.
var Formats = []string{"text", "json", "sarif", "junit", "github"}

// Write writes the findings; color applies to text only.
func (v Report) Write(format Format, color bool) []byte {
	var out bytes.Buffer
	switch format {
	case JSON:
		_ = term.EncodeJSON(&out, v) // cannot fail: only strings and numbers
	case SARIF:
		_ = term.EncodeJSON(&out, sarifOf(v))
	case JUnit:
		out.WriteString(junitOf(v))
	case GitHub:
		for _, finding := range folded(v.all()) {
			out.WriteString(annotation(finding))
		}
	default:
		v.text(&out, color)
	}
	return out.Bytes()
}

func (v Report) all() (findings []contract.Finding) {
	for _, bundle := range v.Bundles {
		findings = append(findings, bundle.Findings...)
	}
	return findings
}

// Rules returns the rules for the provider, without those that require an API
// server.
func (b Bundle) Rules() []contract.Rule {
	if b.Release != "" {
		return contract.RulesOf(contract.FormRelease, rules.All())
	}
	return contract.RulesOf(contract.FormBundle, rules.All())
}

// Error reports findings of severity error.
type Error struct {
	Source string
	Counts map[contract.Severity]int
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s; see \"capi-manifests explain RULE\"", e.Source, Summary(e.Counts, 0))
}
