// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// role is the function of a CRD in Cluster API, which determines the contract of the kind.
type role string

const (
	infraCluster     role = "InfraCluster"
	infraMachine     role = "InfraMachine"
	infraMachinePool role = "InfraMachinePool"
	controlPlane     role = "ControlPlane"
	bootstrapConfig  role = "BootstrapConfig"
	ipamPool         role = "IPAM pool"
)

// roles are recognized by the suffix of the kind and by the fields of the contract, in any group. In a group whose
// labels have the part group, such as vmware.infrastructure.cluster.x-k8s.io, one of the fields is enough. In another
// group the CRD also needs a contract label or all of the fields of proof.
var roles = []struct {
	role        role
	group, kind string
	// signature are fields of which a kind with the role has at least one, unless it has a template.
	signature []string
	// proof are fields that together show the role without a contract label.
	proof []string
}{
	{controlPlane, "", "ControlPlane", []string{"status.initialized", "status.initialization.controlPlaneInitialized"}, nil},
	{infraMachinePool, "infrastructure", "MachinePool", []string{"spec.providerIDList", "status.infrastructureMachineKind"}, []string{"spec.providerIDList"}},
	{infraCluster, "infrastructure", "Cluster", []string{"spec.controlPlaneEndpoint", "status.initialization.provisioned", "status.ready"}, []string{"spec.controlPlaneEndpoint.host", "spec.controlPlaneEndpoint.port"}},
	{infraMachine, "infrastructure", "Machine", []string{"spec.providerID", "status.initialization.provisioned"}, []string{"spec.providerID", "status.addresses"}},
	{bootstrapConfig, "bootstrap", "Config", []string{"status.dataSecretName", "status.initialization.dataSecretCreated"}, []string{"status.dataSecretName"}},
	{ipamPool, "ipam", "Pool", nil, []string{"spec.addresses", "spec.gateway", "spec.prefix"}},
}

// coreGroup is the group of Cluster API's own kinds, which have no role: Cluster, Machine, MachinePool.
const coreGroup = "cluster.x-k8s.io"

// definition is a CRD with its role in Cluster API.
type definition struct {
	*Object
	// Group and DefinedKind are those of the kind that the CRD defines.
	Group, DefinedKind string
	// Role is empty if the kind has no contract. Template marks the template of a kind with the role.
	Role     role
	Template bool
	// Unconfirmed is the role that only the name of the kind suggests.
	Unconfirmed role
	// Contract is the contract that Cluster API uses, Version the version of the kind for it, and Schema the schema of
	// this version. They are empty without a label of a contract that Cluster API supports.
	Contract, Version string
	Schema            Value
}

// define returns the CRDs with their roles.
func define(b *Bundle) []*definition {
	var all []*definition
	for _, o := range b.ofKind(object.CustomResourceDefinition) {
		d := &definition{Object: o, Group: o.At("spec", "group").Text(), DefinedKind: o.At("spec", "names", "kind").Text()}
		if d.Contract = capicontract.SupportedOf(o.At("metadata", "labels").stringMap()); d.Contract != "" {
			d.Version = capicontract.Versions(contractOf(o, d.Contract).Text())[0]
		}
		d.Schema = versionOf(o, d.Version).At("schema", "openAPIV3Schema")
		all = append(all, d)
	}
	for _, d := range all {
		if !strings.HasSuffix(d.DefinedKind, templateSuffix) {
			d.classify(all)
		}
	}
	for _, d := range all {
		if strings.HasSuffix(d.DefinedKind, templateSuffix) {
			d.classifyTemplate(all)
		}
	}
	return all
}

const templateSuffix = "Template"

func (d *definition) classify(all []*definition) {
	for _, r := range roles {
		if d.Group == coreGroup || !strings.HasSuffix(d.DefinedKind, r.kind) || d.DefinedKind == r.kind && r.group != "" {
			continue
		}
		template := find(all, d.Group, d.DefinedKind+templateSuffix)
		inGroup := r.group == "" || inGroup(d, r.group)
		hasField := d.hasAny(r.signature)
		switch {
		case inGroup && (r.role == ipamPool || template != nil || hasField):
			d.Role = r.role
		case !inGroup && hasField && (d.Contract != "" || template != nil && template.Contract != ""),
			!inGroup && len(r.proof) > 0 && d.hasAll(r.proof):
			d.Role = r.role
		case inGroup:
			d.Unconfirmed = r.role
		}
		return
	}
}

// classifyTemplate gives a template the role of its kind. Without the kind, the name and the group or the contract
// label decide.
func (d *definition) classifyTemplate(all []*definition) {
	kind := strings.TrimSuffix(d.DefinedKind, templateSuffix)
	if of := find(all, d.Group, kind); of != nil {
		if of.Role != "" {
			d.Role, d.Template = of.Role, true
			return
		}
		if of.Unconfirmed == "" {
			return
		}
	}
	for _, r := range roles {
		isKind := strings.HasSuffix(kind, r.kind) && d.Group != coreGroup
		if isKind && (r.group == "" || inGroup(d, r.group) || d.Contract != "" && d.hasAny([]string{"spec.template.spec"})) {
			d.Role, d.Template = r.role, true
			return
		}
	}
}

// find returns the CRD of a kind, or nil.
func find(all []*definition, group, kind string) *definition {
	for _, d := range all {
		if d.Group == group && d.DefinedKind == kind {
			return d
		}
	}
	return nil
}

// hasAll reports whether a version has all of the fields.
func (d *definition) hasAll(fields []string) bool {
	for _, field := range fields {
		if !d.hasAny([]string{field}) {
			return false
		}
	}
	return true
}

// hasAny reports whether a version has one of the fields.
func (d *definition) hasAny(fields []string) bool {
	for _, version := range d.At("spec", "versions").Items() {
		schema := version.At("schema", "openAPIV3Schema")
		for _, field := range fields {
			if found, _ := fieldOf(schema, field); found.Exists() {
				return true
			}
		}
	}
	return false
}

// versionOf returns the entry of a CRD's version; it does not exist if the CRD has no such version.
func versionOf(crd *Object, name string) Value {
	for _, version := range crd.At("spec", "versions").Items() {
		if version.At("name").Text() == name && name != "" {
			return version
		}
	}
	return Value{object: crd, near: crd.At("spec", "versions").near}
}

// withRole returns the CRDs of kinds with a contract, except templates.
func (b *Bundle) withRole() []*definition {
	return filter(b.definitions, func(d *definition) bool { return d.Role != "" })
}

// definitionsWithRole returns the CRDs of kinds with one of the roles, without their templates.
func (b *Bundle) definitionsWithRole(roles ...role) []*definition {
	return filter(b.definitions, func(d *definition) bool { return !d.Template && slices.Contains(roles, d.Role) })
}

// templates returns the templates of kinds with a role.
func (b *Bundle) templates() []*definition {
	return filter(b.definitions, func(d *definition) bool { return d.Template && d.Role != "" })
}

// defined returns the CRD of a kind, or nil.
func (b *Bundle) defined(group, kind string) *definition {
	return find(b.definitions, group, kind)
}

func filter[T any](all []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !keep(one) })
}

func inGroup(d *definition, label string) bool {
	return slices.Contains(strings.Split(d.Group, "."), label)
}

// contains reports whether a list contains a string.
func contains(list Value, text string) bool {
	for _, item := range list.Items() {
		if item.Text() == text {
			return true
		}
	}
	return false
}
