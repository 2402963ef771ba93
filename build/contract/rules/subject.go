// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
)

// subject selects the kinds that a rule about fields checks: those with a role, and with a contract if one is set.
type subject struct {
	role     contract.Role
	contract string
}

// of returns the kinds whose fields are known.
func (s subject) of(all contract.Definitions) contract.Definitions {
	return contract.Filter(all.Of(s.role), func(d *contract.Definition) bool {
		return d.Schema.Exists() && (s.contract == "" || s.contract == d.Contract)
	})
}

// requireTyped returns a check that a field exists and has one of the types.
func (s subject) requireTyped(field string, types ...string) func(*contract.Bundle) []contract.Finding {
	return eachDefinition(s.of, func(d *contract.Definition) []contract.Finding {
		return append(d.Missing(field), d.Mistyped(field, types...)...)
	})
}

// require returns a check that fields exist, of any type.
func (s subject) require(fields ...string) func(*contract.Bundle) []contract.Finding {
	return eachDefinition(s.of, func(d *contract.Definition) []contract.Finding { return d.Missing(fields...) })
}

// checkTypes returns a check of the types of existing fields: pairs of a field and its type.
func (s subject) checkTypes(pairs ...string) func(*contract.Bundle) []contract.Finding {
	return eachDefinition(s.of, func(d *contract.Definition) (findings []contract.Finding) {
		for pair := range slices.Chunk(pairs, 2) {
			findings = append(findings, d.Mistyped(pair[0], pair[1])...)
		}
		return findings
	})
}

// optional returns a check that a field that a controller sets later is not required.
func (s subject) optional(field string) func(*contract.Bundle) []contract.Finding {
	parent, name := field[:strings.LastIndex(field, ".")], field[strings.LastIndex(field, ".")+1:]
	return eachDefinition(s.of, func(d *contract.Definition) (findings []contract.Finding) {
		object, _ := contract.SchemaField(d.Schema, parent)
		for _, required := range object.At("required").Items() {
			if required.Text() == name {
				findings = append(findings, required.Finding("%s is required in version %s", field, d.Version))
			}
		}
		return findings
	})
}

// whenThere limits a rule about other fields to kinds that have a field.
func (s subject) whenThere(field string, check func(*contract.Definition) []contract.Finding) func(*contract.Bundle) []contract.Finding {
	return eachDefinition(s.of, func(d *contract.Definition) []contract.Finding {
		if !d.HasField(field) {
			return nil
		}
		return check(d)
	})
}

// deprecated returns a check that fields of an older contract are absent.
func (s subject) deprecated(fields ...string) func(*contract.Bundle) []contract.Finding {
	return eachDefinition(s.of, func(d *contract.Definition) (findings []contract.Finding) {
		for _, field := range fields {
			if found, _ := contract.SchemaField(d.Schema, field); found.Exists() {
				findings = append(findings, found.Finding("deprecated field %s in version %s", field, d.Version))
			}
		}
		return findings
	})
}

// conditionsRule returns the rule that kinds have conditions. owner is the kind that summarizes them.
func (s subject) conditionsRule(id string, source contract.Source, owner string) contract.Rule {
	return contract.Rule{
		ID: id, Severity: contract.Warning, Source: source,
		Why:   "Conditions explain to users, and to the " + owner + " that summarizes them, why an object is not ready.",
		Fix:   "Add status.conditions, a list of metav1.Condition.",
		Check: s.require("status.conditions"),
	}
}

// failureTypesRule returns the rule that the fields about terminal failures are strings.
func (s subject) failureTypesRule(id string, source contract.Source) contract.Rule {
	return contract.Rule{
		ID: id, Severity: contract.Error, Source: source,
		Why:   "Cluster API reads these fields as strings, and fails at any other type.",
		Fix:   "Make the fields strings, or remove them.",
		Check: s.checkTypes("status.failureReason", contract.TypeString, "status.failureMessage", contract.TypeString),
	}
}

// failureDeprecatedRule returns the rule that the fields about terminal failures are deprecated.
func (s subject) failureDeprecatedRule(id string, source contract.Source) contract.Rule {
	return contract.Rule{
		ID: id, Severity: contract.Info, Source: source,
		Why:   "The fields belong to the contract v1beta1. Cluster API will ignore them when the support of that contract ends.",
		Fix:   "Report failures by conditions.",
		Check: s.deprecated("status.failureReason", "status.failureMessage"),
	}
}

// readyRule returns the rule that kinds of the contract v1beta1 have status.ready. owner is the kind that waits for it.
func (s subject) readyRule(id string, source contract.Source, owner string) contract.Rule {
	return contract.Rule{
		ID: id, Severity: contract.Error, Source: source,
		Why:   "Under the contract v1beta1 the " + owner + " waits until status.ready is true.",
		Fix:   "Add the boolean status.ready, or implement the contract v1beta2.",
		Check: s.requireTyped("status.ready", contract.TypeBoolean),
	}
}

// initializationRule returns the rule that kinds of the contract v1beta2 have a field that ends their initialization. owner is the kind
// that waits for it.
func (s subject) initializationRule(id string, source contract.Source, owner, field string) contract.Rule {
	return contract.Rule{
		ID: id, Severity: contract.Error, Source: source,
		Why:   "Under the contract v1beta2 the " + owner + " waits until " + field + " is true; status.ready is not read.",
		Fix:   "Add the boolean " + field + ".",
		Check: s.requireTyped(field, contract.TypeBoolean),
	}
}

// endpointTypeRule returns the rule about the types of the endpoint of the control plane.
func (s subject) endpointTypeRule(id string, source contract.Source) contract.Rule {
	return contract.Rule{
		ID: id, Severity: contract.Error, Source: source,
		Why: "Cluster API reads the host as a string and the port as an integer. With other types it has no address, and the Cluster never becomes available.",
		Fix: "Use the types of the contract: host string, port integer.",
		Check: s.checkTypes("spec.controlPlaneEndpoint", contract.TypeObject,
			"spec.controlPlaneEndpoint.host", contract.TypeString, "spec.controlPlaneEndpoint.port", contract.TypeInteger),
	}
}

// classTemplateRule returns the rule that a ClusterClass needs a template of the kinds.
func (s subject) classTemplateRule(id string, severity contract.Severity, source contract.Source) contract.Rule {
	return contract.Rule{
		ID: id, Severity: severity, Source: source,
		Why:   "A ClusterClass creates the objects of a Cluster from templates. A kind without one cannot be used in a ClusterClass.",
		Fix:   "Add the CRD <kind>Template to the same group.",
		Check: hasTemplate(s.role),
	}
}
