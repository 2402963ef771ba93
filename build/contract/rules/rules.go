// SPDX-License-Identifier: Apache-2.0

// Package rules holds the rules that a provider must follow: All returns them, in a file rule_<theme>.go for each theme; rule_kind.go has the rules
// about kinds with a role, and contractFields the fields of the contracts.
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

import (
	"embed"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
)

//go:generate env UPDATE=1 go test -run TestMarkdown_UpToDate .

//go:embed examples
var examples embed.FS

// All returns all rules, sorted by ID.
func All() []contract.Rule {
	rules := slices.Concat(bundleRules, clusterctlRules, clusterTemplateRules, contractRules, crdRules,
		installerRules, kindRules, layoutRules, metadataRules, metadataYAMLRules, rbacRules, runtimeExtensionRules, serverRules, startupRules, templateRules, webhookRules)
	for i := range rules {
		rules[i] = rules[i].WithExamples(examples)
	}
	slices.SortFunc(rules, func(a, b contract.Rule) int { return strings.Compare(a.ID, b.ID) })
	return rules
}

// Markdown returns RULES.md: all rules, with an index.
func Markdown() string {
	return contract.MarkdownOf("The checks of `capi-manifests validate`. `capi-manifests explain RULE` shows a rule with its examples.\n"+
		"An error is a violation of a MUST, a warning of a SHOULD. A rule is about bundles for the installer, about releases for clusterctl, or about both.", All()) + uncheckedRequirements
}

// uncheckedRequirements ends RULES.md: requirements of the documents that no rule can check.
const uncheckedRequirements = `
## Requirements that no rule checks

The files of one provider do not show whether it meets every requirement of the documents.

| requirement | checked by |
|---|---|
| a controller waits for its owner, preserves finalizers, respects paused and managed-by, sets conditions, creates the Secrets of its contract (bootstrap data, kubeconfig, certificates), labels Machines, serves address claims | end-to-end tests in a cluster, such as Cluster API's |
| a Runtime Extension answers discovery, is deterministic and fast | ` + "`capi-extension test`" + ` with the running server |
| objects have owner references to their Cluster, and their status can be restored after a move | ` + "`clusterctl move`" + ` |
| a storage version, a field in use, or a hook before the end of its deprecation is not removed | ` + "`capi-manifests diff`" + ` between two releases |
| no object is in two bundles of a platform, a core provider exists, every variable has a value | ` + "`capi-manifests plan`" + ` of a release |
| webhooks are reachable, and the names in spec.unmanagedCRDs are names of CRDs | the cluster |
`
