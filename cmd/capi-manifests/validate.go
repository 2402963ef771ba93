// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
)

const validateLong = `Validate checks the bundles of an image against the rules that providers have to
keep: what the installer asks of a bundle, what clusterctl and Cluster API ask of a
provider, and OpenShift's conventions for what runs on it. "capi-manifests explain"
lists the rules, and tells why each is there and how to keep it.

SOURCE is an image, an OCI layout, or a directory. All findings are told at once,
with the line and the field. Findings of severity error are exit code 1. A bundle that is
invalid as such (its metadata, or the digest of its manifests) is exit code 4 and
not checked further.`

const validateExample = `  # What generate wrote
  capi-manifests validate capi-manifests

  # An image, and only what must be corrected
  capi-manifests validate quay.io/me/capa:bundled --severity error

  # Findings beside the lines of a pull request on GitHub
  capi-manifests validate capi-manifests -o github

  # How often is each rule broken?
  capi-manifests validate capi-manifests -o json | jq -r '.bundles[].findings[].rule' | sort | uniq -c`

// validation is the data of validate.
type validation struct {
	// Source is the image by digest, or the path.
	Source string `json:"source"`
	// Counts are how many findings there are of each severity, those that are not shown too.
	Counts  map[contract.Severity]int `json:"counts"`
	Bundles []validatedBundle         `json:"bundles"`
}

type validatedBundle struct {
	Profile  string   `json:"profile,omitempty"`
	Metadata metadata `json:"metadata"`
	// Findings have the path of the file; in an image it is that from the image's root.
	Findings []contract.Finding `json:"findings"`
}

// findingsError says that there are findings of severity error.
type findingsError struct {
	source string
	counts map[contract.Severity]int
}

func (e *findingsError) Error() string {
	return fmt.Sprintf("%s: %s; \"capi-manifests explain RULE\" tells more of a rule", e.source, summaryOf(e.counts))
}

func newValidate() *cobra.Command {
	var format findingsFormat
	least := contract.Info
	cmd := &cobra.Command{
		Use:     "validate SOURCE",
		Short:   "Check a bundle against the rules for providers",
		Long:    validateLong,
		Example: validateExample,
		Args:    oneArg("SOURCE, an image, an OCI layout or a directory"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			bundles, source, err := bundlesAt(cmd.Context(), cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			result := validate(source, bundles, least)
			if _, err := cmd.OutOrStdout().Write(result.format(format)); err != nil {
				return err
			}
			if result.Counts[contract.Error] > 0 {
				return &findingsError{source, result.Counts}
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", printable(source), summaryOf(result.Counts))
			return nil
		},
	}
	cmd.Flags().VarP(&format, "output", "o", "format of the findings: text, json, or github for annotations of a workflow")
	cmd.Flags().Var(&least, "severity", "show findings that are at least so bad: error, warning or info")
	// The only error is that there is no such flag.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "github"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("severity", cobra.FixedCompletions([]string{"error", "warning", "info"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// validate checks bundles and keeps the findings that are at least so bad.
func validate(source string, bundles []extractor.Bundle, least contract.Severity) validation {
	result := validation{Source: source, Counts: map[contract.Severity]int{}, Bundles: []validatedBundle{}}
	for _, severity := range contract.Severities() {
		result.Counts[severity] = 0
	}
	for _, bundle := range bundles {
		findings := []contract.Finding{}
		for _, finding := range contract.Check(bundle) {
			result.Counts[finding.Severity]++
			if finding.Severity.AtLeast(least) {
				finding.File = fileOf(source, bundle, finding.File)
				findings = append(findings, finding)
			}
		}
		result.Bundles = append(result.Bundles, validatedBundle{bundle.Profile, metadataOf(bundle.Metadata), findings})
	}
	return result
}

// fileOf is the path of a file of a bundle: below source if that is a directory,
// or else from the image's root, by the name that it usually has.
func fileOf(source string, bundle extractor.Bundle, file string) string {
	dir, endings := extractor.Roots()[0], []string{".json", ".yaml", ""}
	if bundle.Profile != "" {
		dir, endings = path.Join(extractor.Roots()[1], bundle.Profile), []string{".yaml", ""}
	}
	limit := map[string]int64{contract.ManifestsFile: extractor.MaxManifests, contract.MetadataFile: extractor.MaxMetadata}[file]
	var usual string
	for _, ending := range endings {
		inImage := path.Join(dir, file+ending)
		if extractor.Limit(inImage) != limit {
			continue // the format has no such file
		}
		usual = cmp.Or(usual, inImage)
		_, below, _ := strings.Cut(inImage, "/") // where source is the root itself
		for _, onDisk := range []string{filepath.Join(source, inImage), filepath.Join(source, below)} {
			if _, err := os.Stat(onDisk); err == nil {
				return onDisk
			}
		}
	}
	return usual
}

// summaryOf counts findings: "2 errors, 1 warning".
func summaryOf(counts map[contract.Severity]int) string {
	var parts []string
	for _, severity := range contract.Severities() {
		switch count := counts[severity]; {
		case count == 1:
			parts = append(parts, "1 "+string(severity))
		case count > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", count, severity))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("no findings by %d rules", len(contract.Rules()))
	}
	return strings.Join(parts, ", ")
}

// findingsFormat is the format of findings: a pflag.Value. The zero value is text.
type findingsFormat string

const (
	asText     findingsFormat = ""
	asGitHub   findingsFormat = "github"
	asFindings findingsFormat = "json"
)

func (f *findingsFormat) String() string {
	if *f == asText {
		return "text"
	}
	return string(*f)
}

// Set implements pflag.Value.
func (f *findingsFormat) Set(text string) error {
	if text == "text" {
		text = ""
	}
	if !slices.Contains([]findingsFormat{asText, asFindings, asGitHub}, findingsFormat(text)) {
		return errors.New("the formats are text, json and github")
	}
	*f = findingsFormat(text)
	return nil
}

// Type implements pflag.Value.
func (f *findingsFormat) Type() string { return "format" }

func (v validation) format(format findingsFormat) []byte {
	var out bytes.Buffer
	switch format {
	case asFindings:
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(v) // texts and numbers into a buffer: it cannot fail
	case asGitHub:
		for _, finding := range v.all() {
			out.WriteString(annotation(finding))
		}
	default:
		v.text(&out)
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
func (v validation) text(out *bytes.Buffer) {
	fixes := map[string]string{}
	var rules []string
	for _, finding := range v.all() {
		fmt.Fprintf(out, "%s: %s: %s [%s]\n", printable(place(finding)), finding.Severity, printable(sentence(finding)), finding.Rule)
		if _, known := fixes[finding.Rule]; !known {
			rules = append(rules, finding.Rule)
		}
		fixes[finding.Rule] = finding.Fix
	}
	for _, rule := range rules {
		fmt.Fprintf(out, "\n%s\n    %s\n", rule, fixes[rule])
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

// printable keeps what stands in an image from steering a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
