// SPDX-License-Identifier: Apache-2.0

// Package contract holds the rules that a provider must follow so that the installer, or clusterctl, can install it and
// Cluster API can work with it. Check applies them to a bundle and returns all findings, each with the line, the
// object, the field, and the fix.
//
// Rules see the manifests with the defaults of variables: each variable with a default is replaced, in the text, before
// it is parsed as YAML. Values with variables that have no default are not checked.
//
// To add a rule, add one entry to rule_<theme>.go, and two examples in examples/<rule id>: good.yaml, and bad.yaml with
// a comment "# <- Kind name" on each line with a finding ("# <- metadata", on any line, is a finding in the metadata).
// A comment "# ocpPlatform: AWS" sets a field of the metadata; the default of imageName is
// registry.example.com/openshift:example. "(and so on, 2000000 bytes)" is a placeholder for a text of this length. A
// test runs the examples, and "capi-manifests explain" shows them. Then run go generate.
//
// A provider has two forms: a bundle for the installer, and a release for clusterctl, which CheckRelease checks.
// Rule.Only limits a rule to one of them. The examples of a rule about releases are good.txtar and bad.txtar, with all
// files of a release. In the comment before the first file, "# release: infrastructure-example/v1.0.0" is its
// directory; "# <- metadata.yaml", on any line, is a finding in the file as a whole.
//
// CheckAgainst checks the rules without Check with an API server. The tests of capi-manifests, which has the API
// server, run their examples.
//
// Severity follows the wording of the source: only a violation of a MUST is an error.
package contract

//go:generate go test -run TestMarkdown_UpToDate -update .
