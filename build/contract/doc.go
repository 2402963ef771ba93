// SPDX-License-Identifier: Apache-2.0

// Package contract holds the rules that a provider must keep so that the
// installer, or clusterctl, can install it and Cluster API can work with it. Check applies
// them to a bundle and returns everything that is wrong at once, each finding with the
// line, the object and the field, and the fix.
//
// A rule sees the manifests as a cluster does that gives no values for
// variables: every variable that has a default is replaced by it, in the text, before
// it is read as YAML. Text that depends on a variable without default is not checked.
//
// To add a rule, put one entry into rule_<theme>.go, and two
// examples into examples/<rule id>: good.yaml, and bad.yaml, in which a
// comment "# <- Kind name" stands on each line where the rule finds something ("#
// <- metadata", on any line, is a finding in the metadata). A comment
// "# ocpPlatform: AWS" sets a field of the metadata; the imageName is
// registry.example.com/openshift:example if none is said. "(and so on, 2000000 bytes)" stands for so long a text. A test runs the examples,
// and "capi-manifests explain" shows them. Then run go generate.
//
// A provider has two forms: a bundle for the installer, and a release for clusterctl, which CheckRelease
// checks. A rule says so if it is about one of them only. The examples of a rule about releases are good.txtar and
// bad.txtar, with all files of one. In the comment before the first, "# release: infrastructure-example/v1.0.0"
// says where it lies; "# <- metadata.yaml", on any line, is a finding in the file as a whole.
//
// CheckAgainst asks an API server about the rules without Check.
// Their examples are run by the tests of capi-manifests, which has the API server.
//
// Severity follows the words of the source: only a violation of a MUST is an error.
package contract

//go:generate go test -run TestMarkdown_UpToDate -update .
