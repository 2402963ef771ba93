// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

// classifyRules are the rules of the theme "classify".
var classifyRules = []contract.Rule{{
	ID:       "classify/role",
	Severity: contract.Info,
	Source:   contractOverview,
	Why:      "The kind is named like one with a contract, but has neither the fields of the contract, a template, nor the label of a contract that no other kind of the provider has. Rules about fields ignore it.",
	Fix:      "No change is needed if the kind is internal to the provider; otherwise add the fields of the contract.",
	Check: eachDefinition(allDefinitions, func(d *contract.Definition) []contract.Finding {
		if d.Unconfirmed == "" {
			return nil
		}
		return []contract.Finding{d.At("spec", "names", "kind").Finding("the kind is named like a kind with the role %s, but has none of the fields", d.Unconfirmed)}
	}),
}}
