// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

// controlPlaneRules are the rules of the theme "control-plane".
var controlPlaneRules = []contract.Rule{{
	ID:       "control-plane/present",
	Severity: contract.Error,
	Source:   forControlPlane("Rules (contract version v1beta2)"),
	Why:      "A Cluster refers to an object that runs its control plane. A control plane provider without such a kind has no function.",
	Fix:      "Add the CRD, such as ExampleControlPlane in controlplane.cluster.x-k8s.io; correct providerType if this is not a control plane provider.",
	Check:    needs(controlPlaneType, contract.ControlPlane),
}, {
	ID:       "control-plane/initialized",
	Severity: contract.Error,
	Source:   forControlPlane("ControlPlane: initialization completed"),
	Why:      "Under the contract v1beta1 no other part of a Cluster is created until status.initialized is true.",
	Fix:      "Add the boolean status.initialized, or implement the contract v1beta2.",
	Check:    oldControlPlane.requireTyped("status.initialized", contract.TypeBoolean),
}, {
	ID:       "control-plane/status-ready",
	Severity: contract.Info,
	Source:   forControlPlane("ControlPlane: initialization completed"),
	Why:      "Tools for the contract v1beta1 read status.ready.",
	Fix:      "Add the boolean status.ready, or implement the contract v1beta2 without this field.",
	Check:    oldControlPlane.require("status.ready"),
}, {
	ID:       "control-plane/initialization",
	Severity: contract.Error,
	Source:   forControlPlane("ControlPlane: initialization completed"),
	Why:      "Under the contract v1beta2 no other part of a Cluster is created until status.initialization.controlPlaneInitialized is true.",
	Fix:      "Add the boolean status.initialization.controlPlaneInitialized.",
	Check:    newControlPlane.requireTyped("status.initialization.controlPlaneInitialized", contract.TypeBoolean),
}, {
	ID:       "control-plane/endpoint-optional",
	Severity: contract.Warning,
	Source:   forControlPlane("ControlPlane: endpoint"),
	Why:      "The object is created before the address is known; the controller sets it later.",
	Fix:      "Make the field optional: +optional in Go.",
	Check:    aControlPlane.optional("spec.controlPlaneEndpoint"),
}, {
	ID:       "control-plane/spec-version",
	Severity: contract.Warning,
	Source:   forControlPlane("ControlPlane: version"),
	Why:      "A ClusterClass sets and upgrades the Kubernetes version of a Cluster here.",
	Fix:      "Add the string spec.version.",
	Check:    aControlPlane.require("spec.version"),
}, {
	ID:       "control-plane/status-version",
	Severity: contract.Error,
	Source:   forControlPlane("ControlPlane: version"),
	Why:      "A control plane with spec.version reports its version in status.version. Without it the MachineSets of the Cluster create no Machines, and workers are not upgraded.",
	Fix:      "Add the string status.version; under the contract v1beta2, status.versions, a list of version and replicas, can take its place.",
	Check: aControlPlane.whenThere("spec.version", func(d *contract.Definition) []contract.Finding {
		if d.Contract == "v1beta2" && d.HasField("status.versions") {
			if list, _ := contract.SchemaField(d.Schema, "status.versions"); contract.SchemaType(list) != contract.TypeArray {
				return nil // reported by another rule
			}
			return d.Missing("status.versions[].version")
		}
		return d.Missing("status.version")
	}),
}, {
	ID:       "control-plane/replicas",
	Severity: contract.Error,
	Source:   forControlPlane("ControlPlane: replicas"),
	Why:      "A control plane with spec.replicas reports its existing and ready replicas. Without these fields, its Cluster counts as scaling forever.",
	Fix:      "Add the integers status.replicas and status.readyReplicas.",
	Check:    withReplicas(aControlPlane, "status.replicas", "status.readyReplicas"),
}, {
	ID:       "control-plane/replica-counters-v1beta2",
	Severity: contract.Error,
	Source:   forControlPlane("ControlPlane: replicas"),
	Why:      "Under the contract v1beta2 Cluster API reads these counters to see whether the control plane is scaling. Without them the control plane counts as scaling forever, and no worker is upgraded.",
	Fix:      "Add the integers status.availableReplicas and status.upToDateReplicas.",
	Check:    withReplicas(newControlPlane, "status.availableReplicas", "status.upToDateReplicas"),
}, {
	ID:       "control-plane/replica-counters-v1beta1",
	Severity: contract.Warning,
	Source:   forControlPlane("ControlPlane: replicas"),
	Why:      "Under the contract v1beta1 Cluster API reads this counter to see whether the control plane is scaling. Without it the control plane counts as scaling forever.",
	Fix:      "Add the integer status.updatedReplicas.",
	Check:    withReplicas(oldControlPlane, "status.updatedReplicas"),
}, {
	ID:       "control-plane/selector",
	Severity: contract.Warning,
	Source:   forControlPlane("ControlPlane: replicas"),
	Why:      "The autoscaler finds the machines of a control plane by the selector in its status.",
	Fix:      "Add the string status.selector.",
	Check:    withReplicas(aControlPlane, "status.selector"),
}, {
	ID:       "control-plane/scale-subresource",
	Severity: contract.Warning,
	Source:   forControlPlane("ControlPlane: replicas"),
	Why:      "\"kubectl scale\" and autoscalers read and set replicas only through this subresource.",
	Fix:      "Add subresources.scale with .spec.replicas, .status.replicas and .status.selector.",
	Check:    aControlPlane.whenThere("spec.replicas", checkScale),
}, {
	ID:       "control-plane/machine-template-infraref",
	Severity: contract.Warning,
	Source:   forControlPlane("ControlPlane: machines"),
	Why:      "Under the contract v1beta2 a ClusterClass sets the machines of a control plane here. Without the reference it cannot set them.",
	Fix:      "Add spec.machineTemplate.spec.infrastructureRef with apiGroup, kind and name.",
	Check: withMachines(newControlPlane, "spec.machineTemplate.spec.infrastructureRef.apiGroup",
		"spec.machineTemplate.spec.infrastructureRef.kind", "spec.machineTemplate.spec.infrastructureRef.name"),
}, {
	ID:       "control-plane/machine-template-infraref-v1beta1",
	Severity: contract.Warning,
	Source:   forControlPlane("ControlPlane: machines"),
	Why:      "Under the contract v1beta1 a ClusterClass sets the machines of a control plane here. Without the reference it cannot set them.",
	Fix:      "Add spec.machineTemplate.infrastructureRef, an ObjectReference.",
	Check:    withMachines(oldControlPlane, "spec.machineTemplate.infrastructureRef"),
}, {
	ID:       "control-plane/machine-template-metadata",
	Severity: contract.Warning,
	Source:   forControlPlane("ControlPlane: machines"),
	Why:      "This field passes the labels and annotations of a Cluster's topology to the machines of its control plane.",
	Fix:      "Add spec.machineTemplate.metadata with labels and annotations.",
	Check:    withMachines(aControlPlane, "spec.machineTemplate.metadata"),
}, {
	ID:       "control-plane/machine-template-timeouts",
	Severity: contract.Info,
	Source:   forControlPlane("ControlPlane: machines"),
	Why:      "A ClusterClass sets the deletion timeouts of the machines of a control plane here.",
	Fix:      "Add nodeDrainTimeoutSeconds, nodeVolumeDetachTimeoutSeconds and nodeDeletionTimeoutSeconds to spec.machineTemplate.spec.deletion.",
	Check: withMachines(newControlPlane, "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds",
		"spec.machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds", "spec.machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds"),
}, {
	ID:       "control-plane/readiness-gates-taints",
	Severity: contract.Info,
	Source:   forControlPlane("ControlPlane: machines"),
	Why:      "A ClusterClass sets here the readiness gates of the control plane's machines and the taints of their nodes.",
	Fix:      "Add the lists spec.machineTemplate.spec.readinessGates and spec.machineTemplate.spec.taints.",
	Check:    withMachines(newControlPlane, "spec.machineTemplate.spec.readinessGates", "spec.machineTemplate.spec.taints"),
}, {
	ID:       "control-plane/rollout-after",
	Severity: contract.Error,
	Source:   forControlPlane("ControlPlane: rollout"),
	Why:      "\"clusterctl rollout restart\" writes a time here.",
	Fix:      "Make spec.rollout.after a string of the format date-time.",
	Check:    newControlPlane.checkTypes("spec.rollout", contract.TypeObject, "spec.rollout.after", contract.TypeString),
}, {
	ID:       "control-plane/external-managed",
	Severity: contract.Error,
	Source:   forControlPlane("ControlPlane: externally managed"),
	Why:      "Cluster API reads this boolean to detect a control plane without machines and nodes.",
	Fix:      "Make status.externalManagedControlPlane a boolean.",
	Check:    aControlPlane.checkTypes("status.externalManagedControlPlane", contract.TypeBoolean),
}, {
	ID:       "control-plane/conditions",
	Severity: contract.Warning,
	Source:   forControlPlane("ControlPlane: conditions"),
	Why:      "Conditions explain to users, and to the Cluster that summarizes them, why an object is not ready.",
	Fix:      "Add status.conditions, a list of metav1.Condition, with Available among them.",
	Check:    aControlPlane.require("status.conditions"),
}, {
	ID:       "control-plane/kubeconfig-rbac",
	Severity: contract.Warning,
	Source:   forControlPlane("Cluster kubeconfig management"),
	Why:      "A control plane provider creates the Secret with the kubeconfig of the cluster.",
	Fix:      "Grant create and update or patch of secrets.",
	Check: func(b *contract.Bundle) []contract.Finding {
		if len(b.Definitions.Of(contract.ControlPlane)) == 0 {
			return nil
		}
		return b.Grants.Lacking(b, "", contract.Need("secrets", "create", "update|patch"))
	},
},
	aControlPlane.failureTypesRule("control-plane/failure-fields-type", forControlPlane("ControlPlane: terminal failures")),
	aControlPlane.endpointTypeRule("control-plane/endpoint", forControlPlane("ControlPlane: endpoint")),
	aControlPlane.classTemplateRule("control-plane/template", contract.Warning, forControlPlane("ControlPlaneTemplate, ControlPlaneTemplateList resource definition")),
}

var (
	aControlPlane   = subject{role: contract.ControlPlane}
	oldControlPlane = subject{contract.ControlPlane, "v1beta1"}
	newControlPlane = subject{contract.ControlPlane, "v1beta2"}
)

// withReplicas returns a check of fields in control planes with replicas.
func withReplicas(of subject, counters ...string) func(*contract.Bundle) []contract.Finding {
	return of.whenThere("spec.replicas", func(d *contract.Definition) (findings []contract.Finding) {
		for _, counter := range counters {
			findings = append(findings, d.Missing(counter)...)
		}
		return findings
	})
}

// withMachines returns a check of fields in control planes that create machines: their machineTemplate has fields.
func withMachines(of subject, fields ...string) func(*contract.Bundle) []contract.Finding {
	return of.whenThere("spec.machineTemplate", func(d *contract.Definition) []contract.Finding {
		if template, _ := contract.SchemaField(d.Schema, "spec.machineTemplate"); template.At("properties").Node == nil {
			return nil
		}
		return d.Missing(fields...)
	})
}

func checkScale(d *contract.Definition) []contract.Finding {
	scale := contract.VersionOf(d.Object, d.Version).At("subresources", "scale")
	for field, path := range map[string]string{
		"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
	} {
		if scale.At(field).Text() != path {
			return []contract.Finding{scale.Finding("version %s has spec.replicas, but no complete scale subresource", d.Version)}
		}
	}
	return nil
}
