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
