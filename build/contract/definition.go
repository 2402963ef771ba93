// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/extractor"
)

// role is what a CRD is for Cluster API: which contract it has to keep.
type role string

const (
	infraCluster     role = "InfraCluster"
	infraMachine     role = "InfraMachine"
	infraMachinePool role = "InfraMachinePool"
	controlPlane     role = "ControlPlane"
	bootstrapConfig  role = "BootstrapConfig"
	ipamPool         role = "IPAM pool"
)

// roles are told apart by a label of the group and by the end of the kind. Groups
// such as vmware.infrastructure.cluster.x-k8s.io count; control planes are in any group.
var roles = []struct {
	role        role
	group, kind string
	// signature are fields of which a kind has at least one, or else a template, if it has the role.
	signature []string
}{
	{controlPlane, "", "ControlPlane", []string{"status.initialized", "status.initialization.controlPlaneInitialized"}},
	{infraMachinePool, "infrastructure", "MachinePool", []string{"spec.providerIDList", "status.infrastructureMachineKind"}},
	{infraCluster, "infrastructure", "Cluster", []string{"spec.controlPlaneEndpoint", "status.initialization.provisioned", "status.ready"}},
	{infraMachine, "infrastructure", "Machine", []string{"spec.providerID", "status.initialization.provisioned"}},
	{bootstrapConfig, "bootstrap", "Config", []string{"status.dataSecretName", "status.initialization.dataSecretCreated"}},
	{ipamPool, "ipam", "Pool", nil},
}

// definition is a CRD as Cluster API sees it.
type definition struct {
	*Object
	// Group and Define are those of the kind that the CRD defines.
	Group, Defines string
	// Role is empty if the kind keeps no contract. Template says that the kind is
	// the template of one with the role.
	Role     role
	Template bool
	// Unconfirmed is the role that the name promises and nothing else shows.
	Unconfirmed role
	// Contract is the one that Cluster API goes by, Version that of the kind which it
	// uses for it, and Schema the schema of this version. They are empty without a label.
	Contract, Version string
	Schema            Value
}

// define finds out the roles of the CRDs.
func define(b *Bundle) []*definition {
	var all []*definition
	for _, o := range b.ofKind(crdKind) {
		d := &definition{Object: o, Group: o.At("spec", "group").Text(), Defines: o.At("spec", "names", "kind").Text()}
		d.Contract, d.Version = chosenContract(o)
		d.Schema = versionOf(o, d.Version).At("schema", "openAPIV3Schema")
		all = append(all, d)
	}
	for _, d := range all {
		d.classify(all)
	}
	return all
}

func (d *definition) classify(all []*definition) {
	kind, isTemplate := strings.CutSuffix(d.Defines, "Template")
	for _, r := range roles {
		if r.group != "" && !slices.Contains(strings.Split(d.Group, "."), r.group) || !strings.HasSuffix(kind, r.kind) {
			continue
		}
		d.Template = isTemplate
		hasSibling := slices.ContainsFunc(all, func(other *definition) bool { return other.Group == d.Group && other.Defines == kind+"Template" })
		if isTemplate || hasSibling || r.role == ipamPool || d.hasAny(r.signature) {
			d.Role = r.role
		} else {
			d.Unconfirmed = r.role
		}
		return
	}
}

// hasAny says whether a version has one of the fields.
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

// chosenContract is the contract that Cluster API goes by, and the version.
func chosenContract(crd *Object) (contract, version string) {
	label, versions := chosen(crd)
	if len(versions) == 0 {
		return "", ""
	}
	for _, contract := range contracts {
		if contractOf(crd, contract).Path == label.Path {
			return contract, versions[0]
		}
	}
	return "", ""
}

// versionOf is the entry of a CRD's version; it does not exist if there is none.
func versionOf(crd *Object, name string) Value {
	for _, version := range crd.At("spec", "versions").Items() {
		if version.At("name").Text() == name && name != "" {
			return version
		}
	}
	return Value{object: crd, near: crd.At("spec", "versions").near}
}

// definitions are those that keep a contract, templates and others.
func (b *Bundle) withRole() []*definition {
	return filter(b.definitions, func(d *definition) bool { return d.Role != "" })
}

// playing are the kinds with one of the roles, without their templates.
func (b *Bundle) playing(roles ...role) []*definition {
	return filter(b.definitions, func(d *definition) bool { return !d.Template && slices.Contains(roles, d.Role) })
}

// templates are the templates of kinds with a role.
func (b *Bundle) templates() []*definition {
	return filter(b.definitions, func(d *definition) bool { return d.Template && d.Role != "" })
}

// defined is the CRD of a kind, nil if the bundle has none.
func (b *Bundle) defined(group, kind string) *definition {
	for _, d := range b.definitions {
		if d.Group == group && d.Defines == kind {
			return d
		}
	}
	return nil
}

func filter[T any](all []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !keep(one) })
}

// eachDefinition checks CRDs one by one.
func eachDefinition(of func(*Bundle) []*definition, check func(*definition) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		for _, d := range of(b) {
			findings = append(findings, check(d)...)
		}
		return findings
	}
}

// eachWithRole makes a check of all kinds that keep a contract out of one of one kind.
// IPAM pools keep theirs in no field, and in any scope.
func eachWithRole(check func(*definition) []Finding) func(*Bundle) []Finding {
	return eachDefinition(func(b *Bundle) []*definition {
		return filter(b.withRole(), func(d *definition) bool { return d.Role != ipamPool })
	}, check)
}

func allDefinitions(b *Bundle) []*definition { return b.definitions }

// The provider types whose bundles need a kind with a role.
const (
	infrastructureType = extractor.Infrastructure
	bootstrapType      = extractor.Bootstrap
	controlPlaneType   = extractor.ControlPlane
	ipamType           = extractor.IPAM
)

// needs asks for a kind with a role in the bundles of a provider type.
func needs(kind extractor.ProviderType, wanted role) func(*Bundle) []Finding {
	return func(b *Bundle) []Finding {
		if b.Metadata.ProviderType != kind || len(b.playing(wanted)) > 0 {
			return nil
		}
		return metadataFinding("providerType", "a provider of type %s has a kind with the role %s, but this one defines none", kind, wanted)
	}
}

// hasTemplate asks for a template of each kind with a role. Machines that a pool makes have none.
func hasTemplate(of role) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		for _, d := range b.playing(of) {
			if b.defined(d.Group, d.Defines+"Template") == nil && !strings.HasSuffix(d.Defines, "MachinePoolMachine") {
				findings = append(findings, d.At("spec", "names", "kind").finding("there is no CRD of %sTemplate", d.Defines))
			}
		}
		return findings
	}
}

// oneHasTemplate asks for a template of at least one of the kinds with a role.
func oneHasTemplate(of role) func(*Bundle) []Finding {
	return func(b *Bundle) []Finding {
		missing := hasTemplate(of)(b)
		if len(missing) == 0 || len(missing) < len(b.playing(of)) {
			return nil
		}
		return missing[:1]
	}
}

func inGroup(d *definition, label string) bool {
	return slices.Contains(strings.Split(d.Group, "."), label)
}
