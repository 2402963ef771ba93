// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
)

// infraMachineRules are the rules of the theme "infra-machine".
var infraMachineRules = []contract.Rule{{
	ID:       "infra-machine/present",
	Severity: contract.Error,
	Source:   forInfraMachine("Rules (contract version v1beta2)"),
	Why:      "Every Machine refers to an object that creates its host. An infrastructure provider without such a kind cannot create a node.",
	Fix:      "Add the CRD, such as ExampleMachine in infrastructure.cluster.x-k8s.io; correct providerType if this is not an infrastructure provider.",
	Check:    needs(infrastructureType, contract.InfraMachine),
}, {
	ID:       "infra-machine/provider-id",
	Severity: contract.Error,
	Source:   forInfraMachine("InfraMachine: provider ID"),
	Why:      "Cluster API finds the Node of a Machine by this ID. Without it the Machine never becomes ready.",
	Fix:      "Add the string spec.providerID.",
	Check:    anInfraMachine.requireTyped("spec.providerID", contract.TypeString),
}, {
	ID:       "infra-machine/provider-id-optional",
	Severity: contract.Warning,
	Source:   forInfraMachine("InfraMachine: provider ID"),
	Why:      "The object is created before the host exists; the controller sets the ID later.",
	Fix:      "Make the field optional: +optional in Go.",
	Check:    anInfraMachine.optional("spec.providerID"),
}, {
	ID:       "infra-machine/provider-id-limits",
	Severity: contract.Info,
	Source:   forInfraMachine("InfraMachine: provider ID"),
	Why:      "Cluster API accepts IDs of 1 to 512 characters. Without these limits, the API server rejects an ID only when it is copied to the Machine.",
	Fix:      "Set minLength: 1 and maxLength: 512.",
	Check: newInfraMachine.whenThere("spec.providerID", func(d *contract.Definition) []contract.Finding {
		id, _ := contract.SchemaField(d.Schema, "spec.providerID")
		if id.At("minLength").Exists() && id.At("maxLength").Exists() {
			return nil
		}
		return []contract.Finding{id.Finding("spec.providerID has no limits in version %s", d.Version)}
	}),
}, {
	ID:       "infra-machine/failure-domain",
	Severity: contract.Error,
	Source:   forInfraMachine("InfraMachine: failure domain"),
	Why:      "Under the contract v1beta2 Cluster API copies the failure domain from here to the Machine, as a string.",
	Fix:      "Make status.failureDomain a string.",
	Check:    newInfraMachine.checkTypes("status.failureDomain", contract.TypeString),
}, {
	ID:       "infra-machine/failure-domain-spec",
	Severity: contract.Info,
	Source:   forInfraMachine("InfraMachine: failure domain"),
	Why:      "spec.failureDomain belongs to the contract v1beta1. Cluster API will ignore it when the support of that contract ends.",
	Fix:      "Report the failure domain in status.failureDomain.",
	Check:    oldInfraMachine.deprecated("spec.failureDomain"),
}, {
	ID:       "infra-machine/addresses",
	Severity: contract.Error,
	Source:   forInfraMachine("InfraMachine: addresses"),
	Why:      "Cluster API copies the addresses to the Machine: a list of type and address. It fails at other types.",
	Fix:      "Make status.addresses a list of objects with the strings type and address.",
	Check:    anInfraMachine.checkTypes("status.addresses", contract.TypeArray, "status.addresses[]", contract.TypeObject, "status.addresses[].type", contract.TypeString, "status.addresses[].address", contract.TypeString),
}, {
	ID:       "infra-machine/address-types",
	Severity: contract.Error,
	Source:   forInfraMachine("InfraMachine: addresses"),
	Why:      "A Machine can have addresses of these types. The API server rejects a status with a type that the schema does not allow.",
	Fix:      "Allow " + strings.Join(addressTypes, ", ") + ", or remove the enum.",
	Check:    anInfraMachine.whenThere("status.addresses[].type", checkAddressTypes),
}, {
	ID:       "infra-machine/template",
	Severity: contract.Error,
	Source:   forInfraMachine("InfraMachineTemplate, InfraMachineTemplateList resource definition"),
	Why:      "MachineSets, MachineDeployments and control planes create machines from templates. Without a template, users can only create single Machines.",
	Fix:      "Add the CRD <kind>Template to the same group.",
	Check:    oneHasTemplate(contract.InfraMachine),
}, {
	ID:       "infra-machine/template-each",
	Severity: contract.Warning,
	Source:   forInfraMachine("InfraMachineTemplate, InfraMachineTemplateList resource definition"),
	Why:      "Without a template, users can only create single Machines of this kind.",
	Fix:      "Add the CRD <kind>Template to the same group.",
	Check:    othersHaveTemplate(contract.InfraMachine),
},
	anInfraMachine.conditionsRule("infra-machine/conditions", forInfraMachine("InfraMachine: conditions"), "Machine"),
	anInfraMachine.failureTypesRule("infra-machine/failure-fields-type", forInfraMachine("InfraMachine: terminal failures")),
	newInfraMachine.failureDeprecatedRule("infra-machine/failure-fields", forInfraMachine("InfraMachine: terminal failures")),
	oldInfraMachine.readyRule("infra-machine/status-ready", forInfraMachine("InfraMachine: initialization completed"), "Machine"),
	newInfraMachine.initializationRule("infra-machine/initialization-provisioned", forInfraMachine("InfraMachine: initialization completed"), "Machine", "status.initialization.provisioned"),
}

var (
	anInfraMachine  = subject{role: contract.InfraMachine}
	oldInfraMachine = subject{contract.InfraMachine, "v1beta1"}
	newInfraMachine = subject{contract.InfraMachine, "v1beta2"}
)

var addressTypes = []string{"Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"}

func checkAddressTypes(d *contract.Definition) []contract.Finding {
	kind, _ := contract.SchemaField(d.Schema, "status.addresses[].type")
	allowed := kind.At("enum")
	if allowed.Length() == 0 {
		return nil
	}
	for _, name := range addressTypes {
		if !contract.Contains(allowed, name) {
			return []contract.Finding{allowed.Finding("the schema of version %[2]s does not allow the type %[1]s", name, d.Version)}
		}
	}
	return nil
}
