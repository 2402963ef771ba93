// SPDX-License-Identifier: Apache-2.0

package contract

// infraMachineTemplateRules are the rules of the theme "infra-machine-template".
var infraMachineTemplateRules = []Rule{{
	ID:       "infra-machine-template/capacity",
	Severity: Error,
	Source:   forInfraMachine("InfraMachineTemplate: support cluster autoscaling from zero"),
	Why:      "To scale from zero, the cluster autoscaler reads here the resources, the architecture and the operating system of a future node.",
	Fix:      "Make status.capacity a map of quantities and status.nodeInfo an object with strings, and add the status subresource.",
	Check:    eachDefinition((*Bundle).templates, checkCapacity),
}}

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
