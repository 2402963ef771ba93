// SPDX-License-Identifier: Apache-2.0

package contract

import "strings"

var (
	anInfraMachine  = subject{role: infraMachine}
	oldInfraMachine = subject{infraMachine, "v1beta1"}
	newInfraMachine = subject{infraMachine, "v1beta2"}
)

// infraMachineRules are the contract of the kinds that make a machine.
var infraMachineRules = []Rule{{
	ID:       "infra-machine/present",
	Severity: Error,
	Source:   forInfraMachine("Rules (contract version v1beta2)"),
	Why:      "Every Machine refers to an object that makes its host. A provider of infrastructure without a kind for it cannot make a node.",
	Fix:      "Add the CRD, such as ExampleMachine in infrastructure.cluster.x-k8s.io; correct providerType if this is no infrastructure provider.",
	Check:    needs(infrastructureType, infraMachine),
}, {
	ID:       "infra-machine/provider-id",
	Severity: Error,
	Source:   forInfraMachine("InfraMachine: provider ID"),
	Why:      "Cluster API finds the Node of a Machine by this ID. Without it the Machine never becomes ready.",
	Fix:      "Add the string spec.providerID.",
	Check:    anInfraMachine.must("spec.providerID", aString),
}, {
	ID:       "infra-machine/provider-id-optional",
	Severity: Warning,
	Source:   forInfraMachine("InfraMachine: provider ID"),
	Why:      "The object is made before the host is there; the controller fills in the ID.",
	Fix:      "Make the field optional: +optional in Go.",
	Check:    anInfraMachine.optional("spec.providerID"),
}, {
	ID:       "infra-machine/provider-id-limits",
	Severity: Info,
	Source:   forInfraMachine("InfraMachine: provider ID"),
	Why:      "Cluster API takes IDs of 1 to 512 characters. Another one is refused when it is copied into the Machine, not when it is written here.",
	Fix:      "Set minLength: 1 and maxLength: 512.",
	Check: newInfraMachine.whenThere("spec.providerID", func(d *definition) []Finding {
		id, _ := fieldOf(d.Schema, "spec.providerID")
		if id.At("minLength").Exists() && id.At("maxLength").Exists() {
			return nil
		}
		return []Finding{id.finding("spec.providerID has no limits in version %s", d.Version)}
	}),
}, {
	ID:       "infra-machine/status-ready",
	Severity: Error,
	Source:   forInfraMachine("InfraMachine: initialization completed"),
	Why:      "Under the contract v1beta1 the Machine waits until status.ready is true.",
	Fix:      "Add the boolean status.ready, or keep the contract v1beta2.",
	Check:    oldInfraMachine.must("status.ready", aBoolean),
}, {
	ID:       "infra-machine/initialization-provisioned",
	Severity: Error,
	Source:   forInfraMachine("InfraMachine: initialization completed"),
	Why:      "Under the contract v1beta2 the Machine waits until status.initialization.provisioned is true; status.ready is not read.",
	Fix:      "Add the boolean status.initialization.provisioned.",
	Check:    newInfraMachine.must("status.initialization.provisioned", aBoolean),
}, {
	ID:       "infra-machine/failure-domain",
	Severity: Error,
	Source:   forInfraMachine("InfraMachine: failure domain"),
	Why:      "Under the contract v1beta2 Cluster API copies the failure domain from here to the Machine, as a string.",
	Fix:      "Make status.failureDomain a string.",
	Check:    newInfraMachine.shape("status.failureDomain", aString),
}, {
	ID:       "infra-machine/failure-domain-spec",
	Severity: Info,
	Source:   forInfraMachine("InfraMachine: failure domain"),
	Why:      "spec.failureDomain is of the contract v1beta1. When its support ends, Cluster API reads it no more.",
	Fix:      "Tell the failure domain in status.failureDomain.",
	Check:    oldInfraMachine.deprecated("spec.failureDomain"),
}, {
	ID:       "infra-machine/addresses",
	Severity: Error,
	Source:   forInfraMachine("InfraMachine: addresses"),
	Why:      "Cluster API copies the addresses to the Machine: a list of type and address. It fails at anything else.",
	Fix:      "Make status.addresses a list of objects with the strings type and address.",
	Check:    anInfraMachine.shape("status.addresses", anArray, "status.addresses[]", anObject, "status.addresses[].type", aString, "status.addresses[].address", aString),
}, {
	ID:       "infra-machine/address-types",
	Severity: Error,
	Source:   forInfraMachine("InfraMachine: addresses"),
	Why:      "These are the types of addresses that a Machine may have. A host with a type that the schema does not allow could not be told of.",
	Fix:      "Allow " + strings.Join(addressTypes, ", ") + ", or leave the enum out.",
	Check:    anInfraMachine.whenThere("status.addresses[].type", checkAddressTypes),
}, {
	ID:       "infra-machine/conditions",
	Severity: Warning,
	Source:   forInfraMachine("InfraMachine: conditions"),
	Why:      "Conditions tell people, and the Machine that sums them up, why something is not ready.",
	Fix:      "Add status.conditions, a list of metav1.Condition.",
	Check:    anInfraMachine.should("status.conditions"),
}, {
	ID:       "infra-machine/failure-fields-type",
	Severity: Error,
	Source:   forInfraMachine("InfraMachine: terminal failures"),
	Why:      "Cluster API reads these fields as strings, and fails at anything else.",
	Fix:      "Make them strings, or remove them.",
	Check:    anInfraMachine.shape("status.failureReason", aString, "status.failureMessage", aString),
}, {
	ID:       "infra-machine/failure-fields",
	Severity: Info,
	Source:   forInfraMachine("InfraMachine: terminal failures"),
	Why:      "The fields are of the contract v1beta1. When its support ends, Cluster API reads them no more.",
	Fix:      "Tell of failures by conditions.",
	Check:    newInfraMachine.deprecated("status.failureReason", "status.failureMessage"),
}, {
	ID:       "infra-machine/template",
	Severity: Error,
	Source:   forInfraMachine("InfraMachineTemplate, InfraMachineTemplateList resource definition"),
	Why:      "MachineSets, MachineDeployments and control planes make machines from templates. Without one only single Machines can be made.",
	Fix:      "Add the CRD <kind>Template to the same group.",
	Check:    oneHasTemplate(infraMachine),
}, {
	ID:       "infra-machine/template-each",
	Severity: Warning,
	Source:   forInfraMachine("InfraMachineTemplate, InfraMachineTemplateList resource definition"),
	Why:      "Machines of a kind without template can be made one by one only.",
	Fix:      "Add the CRD <kind>Template to the same group.",
	Check: func(b *Bundle) []Finding {
		if len(oneHasTemplate(infraMachine)(b)) > 0 {
			return nil // another rule
		}
		return hasTemplate(infraMachine)(b)
	},
}, {
	ID:       "infra-machine-template/capacity",
	Severity: Error,
	Source:   forInfraMachine("InfraMachineTemplate: support cluster autoscaling from zero"),
	Why:      "The cluster autoscaler reads here what a node would have of which there is none yet: resources by name, and the node's architecture and operating system.",
	Fix:      "Make status.capacity a map of quantities and status.nodeInfo an object with strings, and add the status subresource.",
	Check:    eachDefinition((*Bundle).templates, checkCapacity),
}}

var addressTypes = []string{"Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"}

func checkAddressTypes(d *definition) []Finding {
	kind, _ := fieldOf(d.Schema, "status.addresses[].type")
	allowed := kind.At("enum")
	if allowed.length() == 0 {
		return nil
	}
	for _, name := range addressTypes {
		if !contains(allowed, name) {
			return []Finding{allowed.finding("the type %s is not allowed in version %s", name, d.Version)}
		}
	}
	return nil
}

func checkCapacity(d *definition) (findings []Finding) {
	if d.Role != infraMachine {
		return nil
	}
	for field, kind := range map[string]string{
		"status.capacity": anObject, "status.nodeInfo": anObject,
		"status.nodeInfo.architecture": aString, "status.nodeInfo.operatingSystem": aString,
	} {
		findings = append(findings, d.mistyped(field, kind)...)
	}
	subresource := versionOf(d.Object, d.Version).At("subresources", "status")
	if capacity, _ := fieldOf(d.Schema, "status.capacity"); capacity.Exists() && subresource.node == nil {
		findings = append(findings, subresource.finding("version %s has status.capacity without the subresource", d.Version))
	}
	return findings
}
