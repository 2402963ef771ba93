// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
)

// contractField is a field that Cluster API reads or writes, as its contracts and the accessors of its package internal/contract list them.
type contractField struct {
	role     contract.Role
	contract string // empty for all contracts
	path     string // below the template's spec.template for templates; {} stands for the values of a map
	kind     string
	// parts are the fields of an object or of the items of a list without which the API server drops what Cluster API writes.
	parts []string
	// missing is the severity of a version without the field; empty if the field is optional. when limits it to kinds with another field.
	missing contract.Severity
	when    string
}

// must and should return fields that a kind must or should have; another field limits the kinds, unless it is empty.
func must(role contract.Role, of, when, kind string, paths ...string) []contractField {
	return present(contract.Error, role, of, when, kind, paths...)
}

func should(role contract.Role, of, when, kind string, paths ...string) []contractField {
	return present(contract.Warning, role, of, when, kind, paths...)
}

func present(missing contract.Severity, role contract.Role, of, when, kind string, paths ...string) (fields []contractField) {
	for _, path := range paths {
		fields = append(fields, contractField{role: role, contract: of, path: path, kind: kind, missing: missing, when: when})
	}
	return fields
}

// endpointOf returns the endpoint of a control plane.
func endpointOf(role contract.Role) []contractField {
	return slices.Concat(optional(role, "", contract.TypeObject, "spec.controlPlaneEndpoint"),
		texts(role, "", "spec.controlPlaneEndpoint.host"), optional(role, "", contract.TypeInteger, "spec.controlPlaneEndpoint.port"))
}

// failuresOf returns the fields about terminal failures.
func failuresOf(roles ...contract.Role) (fields []contractField) {
	for _, role := range roles {
		fields = append(fields, texts(role, "", "status.failureReason", "status.failureMessage")...)
	}
	return fields
}

// optional returns fields that a kind can have.
func optional(role contract.Role, of, kind string, paths ...string) []contractField {
	return present("", role, of, "", kind, paths...)
}

func texts(role contract.Role, of string, paths ...string) []contractField {
	return optional(role, of, contract.TypeString, paths...)
}

// controlPlaneIntegers returns integer fields of a control plane.
func controlPlaneIntegers(of string, paths ...string) []contractField {
	return optional(contract.ControlPlane, of, contract.TypeInteger, paths...)
}

// conditionsOf returns the conditions of a role. Cluster API summarizes a condition by type and status.
func conditionsOf(role contract.Role) []contractField {
	return slices.Concat(should(role, "", "", contract.TypeArray, "status.conditions"), []contractField{
		{role: role, path: "status.conditions[]", kind: contract.TypeObject, parts: []string{"type", "status"}},
	}, texts(role, "", "status.conditions[].type", "status.conditions[].status", "status.conditions[].reason", "status.conditions[].message", "status.conditions[].lastTransitionTime"))
}

// metadataAt returns the metadata that Cluster API passes to other objects.
func metadataAt(role contract.Role, path string) []contractField {
	fields := optional(role, "", contract.TypeObject, path, path+".labels", path+".annotations")
	fields[0].parts = []string{"labels", "annotations"}
	return fields
}

// objectMetadata are the metadata of the objects that templates make; another rule checks its parts.
func objectMetadata(roles ...contract.Role) (fields []contractField) {
	for _, role := range roles {
		fields = append(fields, optional(role, "", contract.TypeObject, "metadata")...)
	}
	return fields
}

// machinesAt returns the fields about machines in the template of a control plane. The contracts have them at different paths.
func machinesAt(path string) []contractField {
	gates, taints := path+"readinessGates", path+"taints"
	return slices.Concat(optional(contract.ControlPlane, "", contract.TypeArray, gates, taints), []contractField{
		{role: contract.ControlPlane, path: gates + "[]", kind: contract.TypeObject, parts: []string{"conditionType"}},
		{role: contract.ControlPlane, path: taints + "[]", kind: contract.TypeObject, parts: []string{"key", "value", "effect", "propagation"}},
	}, texts(contract.ControlPlane, "", gates+"[].conditionType", gates+"[].polarity", taints+"[].key", taints+"[].value", taints+"[].effect", taints+"[].propagation"))
}

var contractFields = slices.Concat(
	endpointOf(contract.InfraCluster), endpointOf(contract.ControlPlane),
	failuresOf(contract.InfraCluster, contract.InfraMachine, contract.InfraMachinePool, contract.ControlPlane, contract.BootstrapConfig),
	must(contract.InfraCluster, "v1beta1", "", contract.TypeBoolean, "status.ready"),
	must(contract.InfraCluster, "v1beta2", "", contract.TypeBoolean, "status.initialization.provisioned"),
	should(contract.InfraCluster, "", "", contract.TypeObject, "spec.controlPlaneEndpoint"),
	should(contract.InfraCluster, "", "spec.controlPlaneEndpoint", contract.TypeString, "spec.controlPlaneEndpoint.host"),
	should(contract.InfraCluster, "", "spec.controlPlaneEndpoint", contract.TypeInteger, "spec.controlPlaneEndpoint.port"),
	must(contract.InfraMachine, "", "", contract.TypeString, "spec.providerID"),
	must(contract.InfraMachine, "v1beta1", "", contract.TypeBoolean, "status.ready"),
	must(contract.InfraMachine, "v1beta2", "", contract.TypeBoolean, "status.initialization.provisioned"),
	must(contract.InfraMachinePool, "", "", contract.TypeArray, "spec.providerIDList"),
	must(contract.InfraMachinePool, "", "", contract.TypeInteger, "status.replicas"),
	must(contract.InfraMachinePool, "", "", contract.TypeBoolean, "status.ready"),
	should(contract.InfraMachinePool, "v1beta2", "", contract.TypeBoolean, "status.initialization.provisioned"),
	texts(contract.InfraMachinePool, "", "spec.providerID", "spec.providerIDList[]", "status.infrastructureMachineKind"),
	must(contract.BootstrapConfig, "", "", contract.TypeString, "status.dataSecretName"),
	must(contract.BootstrapConfig, "v1beta1", "", contract.TypeBoolean, "status.ready"),
	must(contract.BootstrapConfig, "v1beta2", "", contract.TypeBoolean, "status.initialization.dataSecretCreated"),
	must(contract.ControlPlane, "v1beta1", "", contract.TypeBoolean, "status.initialized"),
	must(contract.ControlPlane, "v1beta2", "", contract.TypeBoolean, "status.initialization.controlPlaneInitialized"),
	must(contract.ControlPlane, "", "spec.replicas", contract.TypeInteger, "status.replicas", "status.readyReplicas"),
	must(contract.ControlPlane, "v1beta2", "spec.replicas", contract.TypeInteger, "status.availableReplicas", "status.upToDateReplicas"),
	should(contract.ControlPlane, "v1beta1", "spec.replicas", contract.TypeInteger, "status.updatedReplicas"),
	should(contract.ControlPlane, "", "spec.replicas", contract.TypeString, "status.selector"),
	should(contract.ControlPlane, "", "", contract.TypeString, "spec.version"),
	should(contract.ControlPlane, "v1beta2", "spec.machineTemplate.spec", contract.TypeObject, "spec.machineTemplate.spec.infrastructureRef"),
	should(contract.ControlPlane, "", "spec.machineTemplate.spec", contract.TypeObject, "spec.machineTemplate.metadata"),
	texts(contract.InfraMachine, "", "status.addresses[].type", "status.addresses[].address"), texts(contract.InfraMachine, "v1beta2", "status.failureDomain"),
	texts(contract.InfraCluster, "v1beta2", "status.failureDomains[].name"),
	optional(contract.InfraMachine, "", contract.TypeArray, "status.addresses"),
	optional(contract.InfraMachine, "", contract.TypeObject, "status.addresses[]"),
	optional(contract.InfraMachinePool, "", contract.TypeArray, "status.instances"),
	optional(contract.InfraMachinePool, "", contract.TypeObject, "status.instances[]"),
	optional(contract.InfraCluster, "v1beta1", contract.TypeObject, "status.failureDomains", "status.failureDomains{}", "status.failureDomains{}.attributes"),
	optional(contract.InfraCluster, "v1beta2", contract.TypeArray, "status.failureDomains"),
	optional(contract.InfraCluster, "v1beta2", contract.TypeBoolean, "status.failureDomains[].controlPlane"),
	optional(contract.InfraCluster, "v1beta2", contract.TypeObject, "status.failureDomains[].attributes"),
	optional(contract.ControlPlane, "v1beta2", contract.TypeObject, "spec.rollout", "spec.machineTemplate.spec.infrastructureRef"),
	optional(contract.ControlPlane, "", contract.TypeBoolean, "status.externalManagedControlPlane"),
	optional(contract.InfraCluster, "v1beta1", contract.TypeBoolean, "status.failureDomains{}.controlPlane"),
	optional(contract.ControlPlane, "", contract.TypeObject, "status.versions[]", "spec.machineTemplate"),
	optional(contract.ControlPlane, "", contract.TypeArray, "status.versions"),
	conditionsOf(contract.InfraCluster), conditionsOf(contract.InfraMachine), conditionsOf(contract.InfraMachinePool),
	conditionsOf(contract.ControlPlane), conditionsOf(contract.BootstrapConfig),
	objectMetadata(contract.InfraCluster, contract.InfraMachine, contract.InfraMachinePool, contract.ControlPlane, contract.BootstrapConfig),
	texts(contract.InfraMachine, "", "spec.failureDomain"), texts(contract.InfraMachine, "v1beta1", "status.failureDomain"),
	[]contractField{
		{role: contract.InfraMachine, path: "status.addresses[]", parts: []string{"type", "address"}},
		{role: contract.InfraCluster, contract: "v1beta2", path: "status.failureDomains[]", kind: contract.TypeObject, parts: []string{"name"}},
		{role: contract.ControlPlane, contract: "v1beta1", path: "spec.machineTemplate.infrastructureRef", kind: contract.TypeObject, parts: []string{"apiVersion", "kind", "name"}},
	},
	machinesAt("spec.machineTemplate."), machinesAt("spec.machineTemplate.spec."),
	metadataAt(contract.ControlPlane, "spec.machineTemplate.metadata"),
	texts(contract.ControlPlane, "", "spec.version", "spec.rollout.after", "status.version", "status.versions[].version", "status.selector"),
	controlPlaneIntegers("", "spec.replicas", "status.replicas", "status.readyReplicas", "status.availableReplicas", "status.versions[].replicas"),
	controlPlaneIntegers("v1beta1", "status.updatedReplicas"), controlPlaneIntegers("v1beta2", "status.upToDateReplicas"),
	controlPlaneIntegers("v1beta1", "status.unavailableReplicas"),
	controlPlaneIntegers("v1beta2", "spec.machineTemplate.spec.deletion.nodeDrainTimeoutSeconds",
		"spec.machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds", "spec.machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds"),
	texts(contract.ControlPlane, "v1beta2", "spec.machineTemplate.spec.infrastructureRef.apiGroup",
		"spec.machineTemplate.spec.infrastructureRef.kind", "spec.machineTemplate.spec.infrastructureRef.name"),
	texts(contract.ControlPlane, "v1beta1", "spec.machineTemplate.infrastructureRef.apiVersion", "spec.machineTemplate.infrastructureRef.kind",
		"spec.machineTemplate.infrastructureRef.name", "spec.machineTemplate.infrastructureRef.namespace",
		"spec.machineTemplate.nodeDrainTimeout", "spec.machineTemplate.nodeVolumeDetachTimeout", "spec.machineTemplate.nodeDeletionTimeout"),
)

// checkFieldTypes compares the fields of a kind, or of the objects that its template makes, with the contract.
func checkFieldTypes(d *contract.Definition) contract.Findings {
	return eachContractField(d, func(path string, field contract.Value, of contractField) contract.Findings {
		kind := contract.SchemaType(field)
		if kind == "" || of.kind == "" || of.kind == kind {
			return nil
		}
		return field.Finding("%s is of type %s in version %s, not %s", path, kind, d.Version, of.kind)
	})
}

// checkFieldParts finds objects without the parts that Cluster API writes or reads.
func checkFieldParts(d *contract.Definition) contract.Findings {
	return eachContractField(d, func(path string, field contract.Value, of contractField) (findings contract.Findings) {
		if field.At("x-kubernetes-preserve-unknown-fields").Text() == "true" || !slices.Contains([]string{"", contract.TypeObject}, contract.SchemaType(field)) {
			return nil
		}
		for _, part := range of.parts {
			if missing := field.At("properties", part); !missing.Exists() {
				findings = append(findings, missing.Finding("%s has no field %s in version %s", path, part, d.Version)...)
			}
		}
		return findings
	})
}

func eachContractField(d *contract.Definition, check func(path string, field contract.Value, of contractField) contract.Findings) (findings contract.Findings) {
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

// setLater are the fields that a controller sets after an object is created, so that they must be optional.
var setLater = map[contract.Role][2]string{
	contract.InfraCluster: {"spec", "controlPlaneEndpoint"}, contract.ControlPlane: {"spec", "controlPlaneEndpoint"},
	contract.InfraMachine: {"spec", "providerID"}, contract.InfraMachinePool: {"spec", "providerIDList"},
}

func checkSetLater(d *contract.Definition) (findings contract.Findings) {
	field, known := setLater[d.Role]
	if !known || d.Template {
		return nil
	}
	parent, _ := contract.SchemaField(d.Schema, field[0])
	for _, required := range parent.At("required").Items() {
		if required.Text() == field[1] {
			findings = append(findings, required.Finding("%s.%s is required in version %s", field[0], field[1], d.Version)...)
		}
	}
	return findings
}

// checkMissing returns a check that the version that Cluster API uses has the fields of a severity.
func checkMissing(of contract.Severity) func(*contract.Definition) contract.Findings {
	return func(d *contract.Definition) (findings contract.Findings) {
		for _, field := range contractFields {
			isOf := field.role == d.Role && (field.contract == "" || field.contract == d.Contract)
			if !isOf || field.missing != of || d.Template || !d.Schema.Exists() || field.when != "" && !d.HasField(field.when) {
				continue
			}
			findings = append(findings, d.Missing(field.path)...)
		}
		return findings
	}
}
