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
	"io/fs"
	"slices"
	"strings"

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

// Complete sets the fields that are the same in all findings of the rule.
func (r Rule) Complete(findings Findings) Findings {
	for i := range findings {
		findings[i].Rule, findings[i].Fix = r.ID, r.Fix
		findings[i].Severity = cmp.Or(findings[i].Severity, r.Severity)
	}
	return findings
}
