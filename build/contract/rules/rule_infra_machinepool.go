// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"

	"github.com/capi-installer/capi-installer/build/contract"
)

// infraMachinePoolRules are the rules of the theme "infra-machinepool".
var infraMachinePoolRules = []contract.Rule{{
	ID:       "infra-machinepool/provider-id-list",
	Severity: contract.Error,
	Source:   forInfraMachinePool("InfraMachinePool: providerIDList"),
	Why:      "Cluster API finds the Nodes of a pool by these IDs. Without them no replica is counted.",
	Fix:      "Add spec.providerIDList, a list of strings.",
	Check: func(b *contract.Bundle) []contract.Finding {
		return append(anInfraMachinePool.requireTyped("spec.providerIDList", contract.TypeArray)(b), anInfraMachinePool.checkTypes("spec.providerIDList[]", contract.TypeString)(b)...)
	},
}, {
	ID:       "infra-machinepool/provider-id-list-optional",
	Severity: contract.Warning,
	Source:   forInfraMachinePool("InfraMachinePool: providerIDList"),
	Why:      "The object is created before its machines exist; the controller sets the list later.",
	Fix:      "Make the field optional: +optional in Go.",
	Check:    anInfraMachinePool.optional("spec.providerIDList"),
}, {
	ID:       "infra-machinepool/provider-id-list-limits",
	Severity: contract.Info,
	Source:   forInfraMachinePool("InfraMachinePool: providerIDList"),
	Why:      "Cluster API copies the list into the MachinePool. A MachinePool accepts at most 10000 IDs and treats the list as one value.",
	Fix:      "Set maxItems: 10000 and x-kubernetes-list-type: atomic.",
	Check: newInfraMachinePool.whenThere("spec.providerIDList", func(d *contract.Definition) []contract.Finding {
		list, _ := contract.SchemaField(d.Schema, "spec.providerIDList")
		if list.At("maxItems").Exists() && list.At("x-kubernetes-list-type").Text() == "atomic" {
			return nil
		}
		return []contract.Finding{list.Finding("spec.providerIDList has no limits in version %s", d.Version)}
	}),
}, {
	ID:       "infra-machinepool/replicas",
	Severity: contract.Error,
	Source:   forInfraMachinePool("InfraMachinePool: replicas"),
	Why:      "Cluster API waits until the pool reports its number of machines.",
	Fix:      "Add the integer status.replicas.",
	Check:    anInfraMachinePool.requireTyped("status.replicas", contract.TypeInteger),
}, {
	ID:       "infra-machinepool/status-ready",
	Severity: contract.Error,
	Source:   forInfraMachinePool("InfraMachinePool: initialization completed"),
	Why:      "For pools, Cluster API reads status.ready under the contract v1beta2 too. Without it no MachinePool becomes provisioned.",
	Fix:      "Add the boolean status.ready, beside status.initialization.provisioned.",
	Check:    anInfraMachinePool.requireTyped("status.ready", contract.TypeBoolean),
}, {
	ID:       "infra-machinepool/initialization-provisioned",
	Severity: contract.Warning,
	Source:   forInfraMachinePool("InfraMachinePool: initialization completed"),
	Why:      "The contract v1beta2 requires the field. Cluster API still reads status.ready, but this support will end.",
	Fix:      "Add the boolean status.initialization.provisioned.",
	Check:    newInfraMachinePool.requireTyped("status.initialization.provisioned", contract.TypeBoolean),
}, {
	ID:       "infra-machinepool/instances",
	Severity: contract.Error,
	Source:   forInfraMachinePool("InfraMachinePool: instances"),
	Why:      "If a pool reports its instances, they must be a list of objects.",
	Fix:      "Make status.instances a list of objects.",
	Check:    anInfraMachinePool.checkTypes("status.instances", contract.TypeArray, "status.instances[]", contract.TypeObject),
}, {
	ID:       "infra-machinepool/machine-kind",
	Severity: contract.Error,
	Source:   forInfraMachinePool("MachinePoolMachines support"),
	Why:      "Cluster API creates a Machine for each object of the kind in this field. The field must be a string.",
	Fix:      "Make status.infrastructureMachineKind a string.",
	Check:    anInfraMachinePool.checkTypes("status.infrastructureMachineKind", contract.TypeString),
}, {
	ID:       "infra-machinepool/machine-kind-resolvable",
	Severity: contract.Error,
	Source:   forInfraMachinePool("MachinePoolMachines support"),
	Why:      "Cluster API lists the machines of a pool in the pool's own group and version. Without a kind of machines there, it finds no machines.",
	Fix:      "Serve the CRD of the machines in the version of the pool.",
	Check: func(b *contract.Bundle) []contract.Finding {
		return anInfraMachinePool.whenThere("status.infrastructureMachineKind", func(d *contract.Definition) []contract.Finding {
			if slices.ContainsFunc(b.Definitions.Of(contract.InfraMachine), func(m *contract.Definition) bool {
				return m.Group == d.Group && contract.ServesVersion(m.Object, d.Version)
			}) {
				return nil
			}
			kind, _ := contract.SchemaField(d.Schema, "status.infrastructureMachineKind")
			return []contract.Finding{kind.Finding("no kind of machines is served in %s/%s", d.Group, d.Version)}
		})(b)
	},
}, {
	ID:       "infra-machinepool/provider-id",
	Severity: contract.Error,
	Source:   forInfraMachinePool("InfraMachinePool: providerID"),
	Why:      "The ID of a pool must be a string.",
	Fix:      "Make spec.providerID a string.",
	Check:    anInfraMachinePool.checkTypes("spec.providerID", contract.TypeString),
},
	anInfraMachinePool.conditionsRule("infra-machinepool/conditions", forInfraMachinePool("InfraMachinePool: conditions"), "MachinePool"),
	anInfraMachinePool.failureTypesRule("infra-machinepool/failure-fields", forInfraMachinePool("InfraMachinePool: terminal failures")),
	anInfraMachinePool.classTemplateRule("infra-machinepool/template", contract.Info, forInfraMachinePool("InfraMachinePoolTemplate, InfraMachinePoolTemplateList resource definition")),
}

var (
	anInfraMachinePool  = subject{role: contract.InfraMachinePool}
	newInfraMachinePool = subject{contract.InfraMachinePool, "v1beta2"}
)
