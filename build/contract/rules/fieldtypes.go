// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
)

// contractField is a field that Cluster API reads or writes, as the accessors of its package internal/contract list them. Other
// rules check the fields that have a rule of their own.
type contractField struct {
	role     contract.Role
	contract string // empty for all contracts
	path     string // below the template's spec.template for templates; {} stands for the values of a map
	types    []string
	// parts are the fields of an object or of the items of a list without which the API server drops what Cluster API writes.
	parts []string
}

func texts(role contract.Role, of string, paths ...string) (fields []contractField) {
	for _, path := range paths {
		fields = append(fields, contractField{role: role, contract: of, path: path, types: []string{contract.TypeString}})
	}
	return fields
}

// controlPlaneIntegers returns integer fields of a control plane.
func controlPlaneIntegers(of string, paths ...string) (fields []contractField) {
	for _, path := range paths {
		fields = append(fields, contractField{role: contract.ControlPlane, contract: of, path: path, types: []string{contract.TypeInteger}})
	}
	return fields
}

// conditionsOf returns the conditions of a role. Cluster API summarizes a condition by type and status.
func conditionsOf(role contract.Role) []contractField {
	return slices.Concat([]contractField{
		{role: role, path: "status.conditions", types: []string{contract.TypeArray}},
		{role: role, path: "status.conditions[]", types: []string{contract.TypeObject}, parts: []string{"type", "status"}},
	}, texts(role, "", "status.conditions[].type", "status.conditions[].status", "status.conditions[].reason", "status.conditions[].message", "status.conditions[].lastTransitionTime"))
}

// metadataAt returns the metadata that Cluster API passes to other objects.
func metadataAt(role contract.Role, path string) []contractField {
	return []contractField{
		{role: role, path: path, types: []string{contract.TypeObject}, parts: []string{"labels", "annotations"}},
		{role: role, path: path + ".labels", types: []string{contract.TypeObject}},
		{role: role, path: path + ".annotations", types: []string{contract.TypeObject}},
	}
}

// objectMetadata are the metadata of the objects that templates make; another rule checks its parts.
func objectMetadata(roles ...contract.Role) (fields []contractField) {
	for _, role := range roles {
		fields = append(fields, contractField{role: role, path: "metadata", types: []string{contract.TypeObject}})
	}
	return fields
}

var contractFields = slices.Concat(
	conditionsOf(contract.InfraCluster), conditionsOf(contract.InfraMachine), conditionsOf(contract.InfraMachinePool),
	conditionsOf(contract.ControlPlane), conditionsOf(contract.BootstrapConfig),
	objectMetadata(contract.InfraCluster, contract.InfraMachine, contract.InfraMachinePool, contract.ControlPlane, contract.BootstrapConfig),
	texts(contract.InfraMachine, "", "spec.failureDomain"), texts(contract.InfraMachine, "v1beta1", "status.failureDomain"),
	[]contractField{
		{role: contract.InfraMachine, path: "status.addresses[]", parts: []string{"type", "address"}},
		{role: contract.InfraCluster, contract: "v1beta1", path: "status.failureDomains{}", types: []string{contract.TypeObject}},
		{role: contract.InfraCluster, contract: "v1beta1", path: "status.failureDomains{}.controlPlane", types: []string{contract.TypeBoolean}},
		{role: contract.InfraCluster, contract: "v1beta1", path: "status.failureDomains{}.attributes", types: []string{contract.TypeObject}},
		{role: contract.InfraCluster, contract: "v1beta2", path: "status.failureDomains[]", types: []string{contract.TypeObject}, parts: []string{"name"}},
		{role: contract.ControlPlane, path: "status.versions[]", types: []string{contract.TypeObject}},
		{role: contract.ControlPlane, contract: "v1beta2", path: "spec.machineTemplate.spec.infrastructureRef", types: []string{contract.TypeObject}},
		{role: contract.ControlPlane, contract: "v1beta1", path: "spec.machineTemplate.infrastructureRef", types: []string{contract.TypeObject}, parts: []string{"apiVersion", "kind", "name"}},
		{role: contract.ControlPlane, path: "spec.machineTemplate", types: []string{contract.TypeObject}},
		{role: contract.ControlPlane, path: "spec.machineTemplate.spec.readinessGates", types: []string{contract.TypeArray}},
		{role: contract.ControlPlane, path: "spec.machineTemplate.spec.readinessGates[]", types: []string{contract.TypeObject}, parts: []string{"conditionType"}},
		{role: contract.ControlPlane, path: "spec.machineTemplate.readinessGates", types: []string{contract.TypeArray}},
		{role: contract.ControlPlane, path: "spec.machineTemplate.readinessGates[]", types: []string{contract.TypeObject}, parts: []string{"conditionType"}},
		{role: contract.ControlPlane, path: "spec.machineTemplate.spec.taints", types: []string{contract.TypeArray}},
		{role: contract.ControlPlane, path: "spec.machineTemplate.spec.taints[]", types: []string{contract.TypeObject}, parts: []string{"key", "value", "effect", "propagation"}},
		{role: contract.ControlPlane, path: "spec.machineTemplate.taints", types: []string{contract.TypeArray}},
		{role: contract.ControlPlane, path: "spec.machineTemplate.taints[]", types: []string{contract.TypeObject}, parts: []string{"key", "value", "effect", "propagation"}},
	},
	metadataAt(contract.ControlPlane, "spec.machineTemplate.metadata"),
	[]contractField{{role: contract.ControlPlane, path: "status.versions", types: []string{contract.TypeArray}}},
	texts(contract.ControlPlane, "", "spec.version", "spec.rollout.after", "status.version", "status.versions[].version", "status.selector"),
	controlPlaneIntegers("", "spec.replicas", "status.replicas", "status.readyReplicas", "status.availableReplicas", "status.versions[].replicas"),
	controlPlaneIntegers("v1beta1", "status.updatedReplicas"), controlPlaneIntegers("v1beta2", "status.upToDateReplicas"),
	controlPlaneIntegers("v1beta1", "status.unavailableReplicas"),
	controlPlaneIntegers("v1beta2", "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds",
		"spec.machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds", "spec.machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds"),
	texts(contract.ControlPlane, "", "spec.machineTemplate.spec.readinessGates[].conditionType", "spec.machineTemplate.readinessGates[].conditionType",
		"spec.machineTemplate.spec.readinessGates[].polarity", "spec.machineTemplate.readinessGates[].polarity",
		"spec.machineTemplate.spec.taints[].key", "spec.machineTemplate.spec.taints[].value", "spec.machineTemplate.spec.taints[].effect",
		"spec.machineTemplate.spec.taints[].propagation", "spec.machineTemplate.taints[].key", "spec.machineTemplate.taints[].value",
		"spec.machineTemplate.taints[].effect", "spec.machineTemplate.taints[].propagation"),
	texts(contract.ControlPlane, "v1beta2", "spec.machineTemplate.spec.infrastructureRef.apiGroup",
		"spec.machineTemplate.spec.infrastructureRef.kind", "spec.machineTemplate.spec.infrastructureRef.name"),
	texts(contract.ControlPlane, "v1beta1", "spec.machineTemplate.infrastructureRef.apiVersion", "spec.machineTemplate.infrastructureRef.kind",
		"spec.machineTemplate.infrastructureRef.name", "spec.machineTemplate.infrastructureRef.namespace",
		"spec.machineTemplate.nodeDrainTimeout", "spec.machineTemplate.nodeVolumeDetachTimeout", "spec.machineTemplate.nodeDeletionTimeout"),
)

// checkFieldTypes compares the fields of a kind, or of the objects that its template makes, with the contract.
func checkFieldTypes(d *contract.Definition) []contract.Finding {
	return eachContractField(d, func(path string, field contract.Value, of contractField) []contract.Finding {
		kind := contract.SchemaType(field)
		if kind == "" || len(of.types) == 0 || slices.Contains(of.types, kind) {
			return nil
		}
		return []contract.Finding{field.Finding("%s is of type %s in version %s, not %s", path, kind, d.Version, strings.Join(of.types, " or "))}
	})
}

// checkFieldParts finds objects without the parts that Cluster API writes or reads.
func checkFieldParts(d *contract.Definition) []contract.Finding {
	return eachContractField(d, func(path string, field contract.Value, of contractField) (findings []contract.Finding) {
		if field.At("x-kubernetes-preserve-unknown-fields").Text() == "true" || !slices.Contains([]string{"", contract.TypeObject}, contract.SchemaType(field)) {
			return nil
		}
		for _, part := range of.parts {
			if missing := field.At("properties", part); !missing.Exists() {
				findings = append(findings, missing.Finding("%s has no field %s in version %s", path, part, d.Version))
			}
		}
		return findings
	})
}

func eachContractField(d *contract.Definition, check func(path string, field contract.Value, of contractField) []contract.Finding) (findings []contract.Finding) {
	if !d.Schema.Exists() {
		return nil
	}
	for _, of := range contractFields {
		path := of.path
		switch {
		case of.role != d.Role, of.contract != "" && of.contract != d.Contract, d.Template && strings.HasPrefix(path, "status."):
			continue
		case d.Template:
			path = "spec.template." + path
		}
		if field, _ := contract.SchemaField(d.Schema, path); field.Exists() {
			findings = append(findings, check(path, field, of)...)
		}
	}
	return findings
}
