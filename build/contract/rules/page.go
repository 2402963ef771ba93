// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

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
| a Runtime Extension answers discovery, is deterministic and fast | ` + "`capi-manifests extension test`" + ` with the running server |
| objects have owner references to their Cluster, and their status can be restored after a move | ` + "`clusterctl move`" + ` |
| a storage version, a field in use, or a hook before the end of its deprecation is not removed | ` + "`capi-manifests diff`" + ` between two releases |
| no object is in two bundles of a platform, a core provider exists, every variable has a value | ` + "`capi-manifests plan`" + ` of a release |
| webhooks are reachable, and the names in spec.unmanagedCRDs are names of CRDs | the cluster |
`
