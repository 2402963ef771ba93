// SPDX-License-Identifier: Apache-2.0

// Package rules holds the rules that a provider must follow: All returns them, in a file rule_<theme>.go for each theme.
// Package contract applies them.
//
// To add a rule, add one entry to rule_<theme>.go, and an archive examples/<rule id>.txtar with two examples: good.yaml,
// and bad.yaml with a comment "# <- Kind name" on each line with a finding ("# <- metadata", on any line, is a finding in
// the metadata).
// A comment "# ocpPlatform: AWS" sets a field of the metadata; the default of imageName is
// registry.example.com/openshift:example. "(and so on, 2000000 bytes)" is a placeholder for a text of this length. A
// test runs the examples, and "capi-manifests explain" shows them. Then run go generate.
//
// The examples of a rule about releases are the folders good/ and bad/ of the archive, with all files of a release. In the files
// good and bad, "# release: infrastructure-example/v1.0.0" is the directory of the release; "# <- metadata.yaml", on any line, is a
// finding in the file as a whole. The tests of capi-manifests have an API server: they run the examples of the rules that an API
// server checks.
package rules

//go:generate env UPDATE=1 go test -run TestMarkdown_UpToDate .
