// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"embed"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
)

//go:embed examples
var examples embed.FS

// All returns all rules, sorted by ID.
func All() []contract.Rule {
	rules := slices.Concat(bootstrapConfigRules, bundleRules, classifyRules, clusterctlRules, clusterTemplateRules, contractRules, controlPlaneRules, crdRules,
		extensionConfigRules, infraClusterRules, infraMachineRules, infraMachineTemplateRules, infraMachinePoolRules, installerRules, ipamRules,
		layoutRules, metadataRules, metadataYAMLRules, rbacRules, runtimeExtensionRules, serverRules, startupRules, templateRules, webhookRules)
	for i := range rules {
		rules[i] = rules[i].WithExamples(examples)
	}
	slices.SortFunc(rules, func(a, b contract.Rule) int { return strings.Compare(a.ID, b.ID) })
	return rules
}
