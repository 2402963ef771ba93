// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
)

// validationSchema is where the schema of validate's JSON is published: schema/validation.json.
const validationSchema = "https://raw.githubusercontent.com/capi-installer/capi-installer/main/cmd/capi-manifests/schema/validation.json"

// validation is the data of validate, as in schema/validation.json.
type validation struct {
	// Schema is validationSchema.
	Schema string `json:"$schema"`
	// Source is the image by digest, or the path.
	Source string `json:"source"`
	// Counts are how many findings there are of each severity, those that are not shown too.
	Counts map[contract.Severity]int `json:"counts"`
	// Accepted is how many findings are waived or in the baseline, beside those that are counted.
	Accepted int               `json:"accepted"`
	Bundles  []validatedBundle `json:"bundles"`

	invalid bool // what is there cannot be read
}

type validatedBundle struct {
	Profile string `json:"profile,omitempty"`
	// Release is the path of a release for clusterctl from the source; empty for a bundle.
	Release string `json:"release,omitempty"`
	// Metadata is nil if the bundle is invalid as such: then nothing else is known of it.
	Metadata *metadata `json:"metadata,omitempty"`
	// Findings have the path of the file; in an image it is that from the image's root.
	Findings []contract.Finding `json:"findings"`
	// Accepted are the findings that are waived or in the baseline.
	Accepted []acceptedFinding `json:"accepted,omitempty"`

	asked bool // an API server was
}

// unchecked says why a rule was not checked; empty if it was.
func (b validatedBundle) unchecked(rule contract.Rule) string {
	switch {
	case b.Metadata == nil && rule.By != contract.ByReading:
		return "not checked: the bundle cannot be read"
	case !b.asked && rule.By == contract.ByServer:
		return "not checked: no API server was asked"
	}
	return ""
}

// name is the provider's, if it is known.
func (b validatedBundle) name() string {
	if b.Metadata == nil {
		return ""
	}
	return b.Metadata.ProviderName
}

// acceptedFinding is a finding that somebody decided to live with.
type acceptedFinding struct {
	contract.Finding
	// Reason is that of the waiver, empty for what is in the baseline.
	Reason string `json:"reason,omitempty"`
}

// count counts the findings anew.
func (v *validation) count() {
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

// drop leaves out what is not so bad, and does not count anew.
func (v *validation) drop(least contract.Severity) {
	for i := range v.Bundles {
		v.Bundles[i].Findings = slices.DeleteFunc(v.Bundles[i].Findings, func(f contract.Finding) bool { return !f.Severity.AtLeast(least) })
	}
}

// findingsFormat is the format of findings: a pflag.Value. The zero value is text.
type findingsFormat string

const (
	asText     findingsFormat = ""
	asFindings findingsFormat = "json"
	asSARIF    findingsFormat = "sarif"
	asJUnit    findingsFormat = "junit"
	asGitHub   findingsFormat = "github"
)

var findingsFormats = []string{"text", "json", "sarif", "junit", "github"}

func (f *findingsFormat) String() string {
	if *f == asText {
		return "text"
	}
	return string(*f)
}

// Set implements pflag.Value.
func (f *findingsFormat) Set(text string) error {
	if !slices.Contains(findingsFormats, text) {
		return errors.New("the formats are " + strings.Join(findingsFormats, ", "))
	}
	*f = findingsFormat(strings.TrimPrefix(text, "text"))
	return nil
}

// Type implements pflag.Value.
func (f *findingsFormat) Type() string { return "format" }

// format writes the findings; in color for people on a terminal.
func (v validation) format(format findingsFormat, color bool) []byte {
	var out bytes.Buffer
	switch format {
	case asFindings:
		_ = encodeJSON(&out, v) // texts and numbers: it cannot fail
	case asSARIF:
		_ = encodeJSON(&out, sarifOf(v))
	case asJUnit:
		out.WriteString(junitOf(v))
	case asGitHub:
		for _, finding := range v.all() {
			out.WriteString(annotation(finding))
		}
	default:
		v.text(&out, color)
	}
	return out.Bytes()
}

func (v validation) all() (findings []contract.Finding) {
	for _, bundle := range v.Bundles {
		findings = append(findings, bundle.Findings...)
	}
	return findings
}

// text writes a line for each finding, as compilers do, and then how to keep the rules that are broken.
func (v validation) text(out *bytes.Buffer, color bool) {
	paint := painter(color)
	fixes := map[string]string{}
	var rules []string
	for _, finding := range v.all() {
		fmt.Fprintf(out, "%s: %s: %s [%s]\n", paint(bold, printable(place(finding))), paint(severityColors[finding.Severity], string(finding.Severity)),
			printable(sentence(finding)), paint(faint, finding.Rule))
		if _, known := fixes[finding.Rule]; !known {
			rules = append(rules, finding.Rule)
		}
		fixes[finding.Rule] = finding.Fix
	}
	for _, rule := range rules {
		fmt.Fprintf(out, "\n%s\n    %s\n", paint(bold, rule), fixes[rule])
	}
}

func place(finding contract.Finding) string {
	if finding.Line == 0 {
		return finding.File
	}
	return fmt.Sprintf("%s:%d", finding.File, finding.Line)
}

// sentence says what is wrong, with the object and the field.
func sentence(finding contract.Finding) string {
	where := strings.TrimSpace(finding.Object + " " + finding.Field)
	if where == "" {
		return finding.Message
	}
	return where + ": " + finding.Message
}

// annotation is a workflow command of GitHub Actions. A path that is not in the
// checked out repository does no harm: the annotation is then without a place.
func annotation(finding contract.Finding) string {
	command := map[contract.Severity]string{contract.Error: "error", contract.Warning: "warning", contract.Info: "notice"}[finding.Severity]
	value := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	where := "file=" + property.Replace(filepath.ToSlash(finding.File))
	if finding.Line > 0 {
		where += fmt.Sprintf(",line=%d", finding.Line)
	}
	text := value.Replace(sentence(finding) + "\n" + finding.Fix)
	return printable(fmt.Sprintf("::%s %s,title=%s::%s", command, where, property.Replace(finding.Rule), text)) + "\n"
}
