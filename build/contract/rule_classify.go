// SPDX-License-Identifier: Apache-2.0

package contract

// classifyRules are the rules of the theme "classify".
var classifyRules = []Rule{{
	ID:       "classify/role",
	Severity: Info,
	Source:   contractOverview,
	Why:      "The kind is named like one with a contract, but has neither the fields of the contract nor a template. Rules about fields ignore it.",
	Fix:      "No change is needed if the kind is internal to the provider; otherwise add the fields of the contract.",
	Check: eachDefinition(allDefinitions, func(d *definition) []Finding {
		if d.Unconfirmed == "" {
			return nil
		}
		return []Finding{d.At("spec", "names", "kind").finding("the kind is named like a kind with the role %s, but has none of the fields", d.Unconfirmed)}
	}),
}}
