// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

// infraMachineTemplateRules are the rules of the theme "infra-machine-template".
var infraMachineTemplateRules = []contract.Rule{{
	ID:       "infra-machine-template/capacity",
	Severity: contract.Error,
	Source:   forInfraMachine("InfraMachineTemplate: support cluster autoscaling from zero"),
	Why:      "To scale from zero, the cluster autoscaler reads here the resources, the architecture and the operating system of a future node.",
	Fix:      "Make status.capacity a map of quantities and status.nodeInfo an object with strings, and add the status subresource.",
	Check:    eachDefinition(contract.Definitions.Templates, checkCapacity),
}}

func checkCapacity(d *contract.Definition) (findings []contract.Finding) {
	if d.Role != contract.InfraMachine {
		return nil
	}
	for field, kind := range map[string]string{
		"status.capacity": contract.TypeObject, "status.nodeInfo": contract.TypeObject,
		"status.nodeInfo.architecture": contract.TypeString, "status.nodeInfo.operatingSystem": contract.TypeString,
	} {
		findings = append(findings, d.Mistyped(field, kind)...)
	}
	subresource := contract.VersionOf(d.Object, d.Version).At("subresources", "status")
	if capacity, _ := contract.SchemaField(d.Schema, "status.capacity"); capacity.Exists() && subresource.Node == nil {
		findings = append(findings, subresource.Finding("version %s has status.capacity without the subresource", d.Version).As(contract.Warning)) // all but the optional feature works
	}
	return findings
}
