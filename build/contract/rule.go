// SPDX-License-Identifier: Apache-2.0

// Package contract checks whether a provider follows rules, so that the installer, or clusterctl, can install it and
// Cluster API can work with it. Check applies rules to a bundle and returns all findings, each with the line, the object,
// the field, and the fix. Package rules has the rules; this package reads the objects for them: their values with the lines
// of the file, the CRDs with their roles in Cluster API, and the permissions of the pods.
//
// Rules see the manifests with the defaults of variables: each variable with a default is replaced, in the text, before
// it is parsed as YAML. Values with variables that have no default are not checked.
//
// A provider has two forms: a bundle for the installer, and a release for clusterctl; CheckRelease checks the latter.
// Rule.Only limits a rule to one of them. CheckAgainst checks the rules without Check with an API server.
//
// Severity follows the wording of the source: only a violation of a MUST is an error.
package contract

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/extractor"
)

// Source is the origin of a rule.
type Source struct {
	// Document is the title of the document.
	Document string `json:"document"`
	// Section is the heading in the document.
	Section string `json:"section"`
	// URL is the address of the section.
	URL string `json:"url"`
}

// Form is a delivery form of a provider.
type Form string

// The forms.
const (
	// FormBundle is a bundle in an image, for the installer.
	FormBundle Form = "bundle"
	// FormRelease is a release in a repository that clusterctl reads: components, metadata.yaml and templates.
	FormRelease Form = "release"
)

// Rule is a requirement for providers.
type Rule struct {
	// ID is "theme/name", such as "installer/no-secret". It never changes.
	ID string
	// Severity of its findings; a check can return another one.
	Severity Severity
	// Only is the form of a provider that the rule is about; empty if it is about both.
	Only Form
	// OpenShift limits the rule to bundles for OpenShift.
	OpenShift bool
	// Source is the document with the requirement.
	Source Source
	// Why describes the harm of a violation, in a sentence or two.
	Why string
	// Fix tells the author how to resolve a finding.
	Fix string
	// By names the checker of the rule.
	Checker Checker
	// Check returns the violations of a bundle. It leaves out the fields that are the same in
	// all findings of a rule: ID, severity and fix. It is nil unless the rule is checked CheckerFunction.
	Check func(*Bundle) Findings

	// examples are the files with the examples.
	examples fs.ReadFileFS
}

// Checker is the part of the program that checks a rule.
type Checker int

const (
	// CheckerFunction means that the function Check does.
	CheckerFunction Checker = iota
	// CheckerExtractor means that the extractor rejects a violation: Unreadable finds the rule for its error.
	CheckerExtractor
	// CheckerServer means that an API server does, by CheckAgainst.
	CheckerServer
)

// RulesOf returns the rules about a form of a provider.
func RulesOf(form Form, rules []Rule) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return !slices.Contains(r.Forms(), form) })
}

// Forms returns the forms that the rule is about.
func (r Rule) Forms() []Form {
	if r.Only != "" {
		return []Form{r.Only}
	}
	return []Form{FormBundle, FormRelease}
}

// Check returns the findings of rules in a bundle, in the order of the files: metadata first, then the manifests from top
// to bottom.
func Check(bundle extractor.Bundle, rules []Rule) Findings {
	read := Read(bundle)
	var findings Findings
	for _, rule := range RulesOf(FormBundle, rules) {
		if rule.appliesTo(bundle.Metadata.ClusterProfile) {
			findings = append(findings, rule.findings(read)...)
		}
	}
	return inOrder(findings)
}

// appliesTo reports whether the rule is about bundles of a profile.
func (r Rule) appliesTo(profile extractor.ClusterProfile) bool {
	return !r.OpenShift || profile == extractor.OpenShift
}

// inOrder sorts findings in the order of the files.
func inOrder(findings Findings) Findings {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(-strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return findings
}

// findings returns the complete findings of one rule.
func (r Rule) findings(bundle *Bundle) Findings {
	if r.Check == nil {
		return nil
	}
	return r.Complete(r.Check(bundle))
}

// Complete sets the fields that are the same in all findings of the rule. Equal findings are one.
func (r Rule) Complete(findings Findings) (complete Findings) {
	for _, f := range findings {
		f.Rule, f.Fix, f.Severity = r.ID, r.Fix, cmp.Or(f.Severity, r.Severity)
		if !slices.Contains(complete, f) {
			complete = append(complete, f)
		}
	}
	return complete
}

// Finding is a violation of a rule.
type Finding struct {
	// Rule is the ID of the rule.
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	// File is MetadataFile or ManifestsFile, or a file of a release or of an invalid bundle.
	File string `json:"file"`
	// Line of the file, from 1; 0 if unknown.
	Line int `json:"line,omitempty"`
	// Object is the kind, namespace and name, such as "Deployment openshift-cluster-api/manager".
	Object string `json:"object,omitempty"`
	// Field is the path in the object, such as "spec.template.spec.containers[0].image", or the field of the metadata.
	Field string `json:"field,omitempty"`
	// Message describes the violation.
	Message string `json:"message"`
	// Fix is the fix of the rule.
	Fix string `json:"fix"`
}

// Findings are violations of rules.
type Findings []Finding

// As sets a severity that overrides the rule's.
func (f Findings) As(severity Severity) Findings {
	for i := range f {
		f[i].Severity = severity
	}
	return f
}

// HasLine reports whether a finding is on a line.
func (f Findings) HasLine(line int) bool {
	return slices.ContainsFunc(f, func(of Finding) bool { return of.Line == line })
}

// Severity is the severity of a violation.
type Severity string

// The severities, most severe first.
const (
	// Error is a violation of a MUST: the bundle cannot be installed, or does not work.
	Error Severity = "error"
	// Warning is a violation of a SHOULD.
	Warning Severity = "warning"
	// Info is information.
	Info Severity = "info"
)

// Severities returns the severities, most severe first.
func Severities() []Severity { return []Severity{Error, Warning, Info} }

// AtLeast reports whether s is at least as severe as least.
func (s Severity) AtLeast(least Severity) bool {
	return slices.Index(Severities(), s) <= slices.Index(Severities(), least)
}

// The files of a bundle with findings. Their paths and names differ between the layouts.
const (
	MetadataFile  = "metadata"
	ManifestsFile = "manifests"
)

// The names of files in a release.
const (
	ReleaseMetadata  = "metadata.yaml"
	componentsEnd    = "-components.yaml"
	ClusterTemplate  = "cluster-template"
	ClusterClassFile = "clusterclass-"
)

// Example has the manifests of a provider without, and of one with, findings of a rule. In Bad, a comment that begins
// with "<-" marks each line with a finding. A comment such as "# ocpPlatform: AWS" sets a field of the metadata.
// Examples of rules about image layouts and about releases have several files, each after a line with its path ("--
// capi-manifests/metadata.json --").
type Example struct{ Good, Bad string }

// Example returns the examples of the rule, from the archive examples/<rule id>.txtar. An example is a file, good.yaml, or
// a folder, good/, whose comment is the file good.
func (r Rule) Example() (Example, error) {
	name := "examples/" + r.ID + ".txtar"
	text, err := r.examples.ReadFile(name)
	if err != nil {
		return Example{}, fmt.Errorf("reading the examples of %s: %w", r.ID, err)
	}
	archive := txtar.Parse(text)
	example := Example{exampleIn(archive, "good"), exampleIn(archive, "bad")}
	if example.Good == "" || example.Bad == "" {
		return Example{}, fmt.Errorf("reading the examples of %s: %s has no good or no bad example", r.ID, name)
	}
	return example, nil
}

// WithExamples returns the rule with the examples in a file system, in the folder examples.
func (r Rule) WithExamples(files fs.ReadFileFS) Rule {
	r.examples = files
	return r
}

// exampleIn returns the text of an example in an archive: of its only file, or of all its files as an archive.
func exampleIn(archive *txtar.Archive, name string) string {
	var files txtar.Archive
	for _, file := range archive.Files {
		if file.Name == name+".yaml" {
			return string(file.Data)
		}
		if file.Name == name {
			files.Comment = file.Data
		}
		if path, found := strings.CutPrefix(file.Name, name+"/"); found {
			files.Files = append(files.Files, txtar.File{Name: path, Data: file.Data})
		}
	}
	return string(txtar.Format(&files))
}

// String names the source: document, section and address.
func (s Source) String() string { return fmt.Sprintf("%s, %q (%s)", s.Document, s.Section, s.URL) }

// MarkdownOf returns a page with a table of rules, after an introduction. The reason of a rule is its first sentence, or
// more if that is short.
func MarkdownOf(introduction string, rules []Rule) string {
	var text strings.Builder
	text.WriteString("<!-- Generated by go generate from the rules in this package. -->\n# Rules\n\n" + introduction + "\n\n| rule | severity | reason |\n|---|---|---|\n")
	for _, rule := range rules {
		start := rule.Why[:min(60, len(rule.Why))]
		rest, _, _ := strings.Cut(rule.Why[len(start):], ". ")
		fmt.Fprintf(&text, "| `%s` | %s | %s |\n", rule.ID, rule.Severity, strings.TrimSuffix(start+rest, "."))
	}
	return text.String()
}

// About names the forms of a provider that the rule is about: "bundles", "releases", or both.
func (r Rule) About() string {
	var forms []string
	for _, form := range r.Forms() {
		forms = append(forms, string(form)+"s")
	}
	return strings.Join(forms, " and ")
}

// FormatPage is the address of FORMAT.md.
const FormatPage = "https://github.com/capi-installer/capi-installer/blob/main/build/contract/FORMAT.md"
