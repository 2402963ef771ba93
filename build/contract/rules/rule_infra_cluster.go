// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

// infraClusterRules are the rules of the theme "infra-cluster".
var infraClusterRules = []contract.Rule{{
	ID:       "infra-cluster/present",
	Severity: contract.Error,
	Source:   forInfraCluster("Rules (contract version v1beta2)"),
	Why:      "Every Cluster refers to an object that creates its infrastructure. An infrastructure provider without such a kind cannot create a cluster.",
	Fix:      "Add the CRD, such as ExampleCluster in infrastructure.cluster.x-k8s.io; correct providerType if this is not an infrastructure provider.",
	Check:    checkInfraCluster,
}, {
	ID:       "infra-cluster/control-plane-endpoint",
	Severity: contract.Warning,
	Source:   forInfraCluster("InfraCluster: control plane endpoint"),
	Why:      "Cluster API takes the address of the API server from here, unless the control plane provides it.",
	Fix:      "Add spec.controlPlaneEndpoint with host and port, unless another component provides the address.",
	Check:    anInfraCluster.require("spec.controlPlaneEndpoint", "spec.controlPlaneEndpoint.host", "spec.controlPlaneEndpoint.port"),
}, {
	ID:       "infra-cluster/control-plane-endpoint-optional",
	Severity: contract.Warning,
	Source:   forInfraCluster("InfraCluster: control plane endpoint"),
	Why:      "Users and ClusterClasses create the object before the address is known; the controller sets it later.",
	Fix:      "Make the field optional: +optional in Go.",
	Check:    anInfraCluster.optional("spec.controlPlaneEndpoint"),
}, {
	ID:       "infra-cluster/failure-domains-type",
	Severity: contract.Error,
	Source:   forInfraCluster("InfraCluster: failure domains"),
	Why:      "Under the contract v1beta1 Cluster API reads the failure domains as a map by name. With a list, the reconciliation of the Cluster fails.",
	Fix:      "Make status.failureDomains an object with additionalProperties, or implement the contract v1beta2, where it is a list.",
	Check:    oldInfraCluster.checkTypes("status.failureDomains", contract.TypeObject),
}, {
	ID:       "infra-cluster/failure-domains-list",
	Severity: contract.Error,
	Source:   forInfraCluster("InfraCluster: failure domains"),
	Why:      "Under the contract v1beta2 Cluster API reads the failure domains as a list of name, controlPlane and attributes.",
	Fix:      "Make status.failureDomains a list of objects with these fields.",
	Check: newInfraCluster.checkTypes("status.failureDomains", contract.TypeArray, "status.failureDomains[].name", contract.TypeString,
		"status.failureDomains[].controlPlane", contract.TypeBoolean, "status.failureDomains[].attributes", contract.TypeObject),
}, {
	ID:       "infra-cluster/failure-domains-key",
	Severity: contract.Warning,
	Source:   forInfraCluster("InfraCluster: failure domains"),
	Why:      "Every writer replaces a list without a key as a whole, and the list can contain a failure domain twice.",
	Fix:      "Set x-kubernetes-list-type: map and x-kubernetes-list-map-keys: [name].",
	Check: newInfraCluster.whenThere("status.failureDomains", func(d *contract.Definition) []contract.Finding {
		list, _ := contract.SchemaField(d.Schema, "status.failureDomains")
		if contract.SchemaType(list) != contract.TypeArray || contract.Contains(list.At("x-kubernetes-list-map-keys"), "name") {
			return nil
		}
		return []contract.Finding{list.Finding("status.failureDomains in version %s is not a list map with the key name", d.Version)}
	}),
},
	anInfraCluster.conditionsRule("infra-cluster/conditions", forInfraCluster("InfraCluster: conditions"), "Cluster"),
	anInfraCluster.failureTypesRule("infra-cluster/failure-fields-type", forInfraCluster("InfraCluster: terminal failures")),
	newInfraCluster.failureDeprecatedRule("infra-cluster/failure-fields-deprecated", forInfraCluster("InfraCluster: terminal failures")),
	oldInfraCluster.readyRule("infra-cluster/status-ready", forInfraCluster("InfraCluster: initialization completed"), "Cluster"),
	newInfraCluster.initializationRule("infra-cluster/initialization-provisioned", forInfraCluster("InfraCluster: initialization completed"), "Cluster", "status.initialization.provisioned"),
	anInfraCluster.endpointTypeRule("infra-cluster/control-plane-endpoint-type", forInfraCluster("InfraCluster: control plane endpoint")),
	anInfraCluster.classTemplateRule("infra-cluster/template", contract.Warning, forInfraCluster("InfraClusterTemplate, InfraClusterTemplateList resource definition")),
}

var (
	anInfraCluster  = subject{role: contract.InfraCluster}
	oldInfraCluster = subject{contract.InfraCluster, "v1beta1"}
	newInfraCluster = subject{contract.InfraCluster, "v1beta2"}
)

// checkInfraCluster lowers the severity for a provider that has only machines: the document has SHOULD in one place and
// MUST in another.
func checkInfraCluster(b *contract.Bundle) []contract.Finding {
	findings := needs(infrastructureType, contract.InfraCluster)(b)
	if len(b.Definitions.Of(contract.InfraMachine, contract.InfraMachinePool)) > 0 {
		return allAs(contract.Warning, findings)
	}
	return findings
}
