// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Role is the function of a CRD in Cluster API. It determines the contract of the kind.
type Role string

// The roles that providers' contracts define.
const (
	InfraCluster     Role = "InfraCluster"
	InfraMachine     Role = "InfraMachine"
	InfraMachinePool Role = "InfraMachinePool"
	ControlPlane     Role = "ControlPlane"
	BootstrapConfig  Role = "BootstrapConfig"
	IPAMPool         Role = "IPAM pool"
)

// roles are recognized by the suffix of the kind and by the fields of the contract, in any group. In a group whose
// labels have the part group, such as vmware.infrastructure.cluster.x-k8s.io, one of the fields is enough. In another
// group the CRD also needs a contract label or all of the fields of proof.
var roles = []struct {
	role        Role
	group, kind string
	// signature are fields: a kind with the role has at least one of them, unless it has a template.
	signature []string
	// proof are fields that together show the role without a contract label.
	proof []string
}{
	{ControlPlane, "", "ControlPlane", []string{"status.initialized", "status.initialization.controlPlaneInitialized"}, nil},
	{InfraMachinePool, "infrastructure", "MachinePool", []string{"spec.providerIDList", "status.infrastructureMachineKind"}, []string{"spec.providerIDList"}},
	{InfraCluster, "infrastructure", "Cluster", []string{"spec.controlPlaneEndpoint", "status.initialization.provisioned", "status.ready"}, []string{"spec.controlPlaneEndpoint.host", "spec.controlPlaneEndpoint.port"}},
	{InfraMachine, "infrastructure", "Machine", []string{"spec.providerID", "status.initialization.provisioned"}, []string{"spec.providerID", "status.addresses"}},
	{BootstrapConfig, "bootstrap", "Config", []string{"status.dataSecretName", "status.initialization.dataSecretCreated"}, []string{"status.dataSecretName"}},
	{IPAMPool, "ipam", "Pool", nil, []string{"spec.addresses", "spec.gateway", "spec.prefix"}},
}

// CoreGroup is the group of Cluster API's own kinds without role: Cluster, Machine, MachinePool.
const CoreGroup = "cluster.x-k8s.io"

// Definition is a CRD with its role in Cluster API.
type Definition struct {
	*Object
	// Group and DefinedKind identify the kind that the CRD defines.
	Group, DefinedKind string
	// Role is empty if the kind has no contract. Template marks the template of a kind with the role.
	Role     Role
	Template bool
	// Unconfirmed is the role that only the name of the kind suggests.
	Unconfirmed Role
	// Contract is the contract that Cluster API uses, Version the version of the kind for it, and Schema the schema of
	// this version. They are empty without a label of a contract that Cluster API supports.
	Contract, Version string
	Schema            Value
}

// define returns the CRDs with their roles.
func define(b *Bundle) Definitions {
	var all Definitions
	for _, o := range b.OfKind(object.CustomResourceDefinition) {
		d := &Definition{Object: o, Group: o.At("spec", "group").Text(), DefinedKind: o.At("spec", "names", "kind").Text()}
		if d.Contract = capicontract.SupportedOf(o.At("metadata", "labels").StringMap()); d.Contract != "" {
			d.Version = capicontract.Versions(LabelOf(o, d.Contract).Text())[0]
		}
		d.Schema = VersionOf(o, d.Version).At("schema", "openAPIV3Schema")
		all = append(all, d)
	}
	for _, d := range all {
		if !strings.HasSuffix(d.DefinedKind, templateSuffix) {
			d.classify(all)
		}
		if d.ofOtherProvider(b.Metadata.ProviderType) {
			d.Role, d.Unconfirmed = "", ""
		}
	}
	confirm(all)
	for _, d := range all {
		if strings.HasSuffix(d.DefinedKind, templateSuffix) {
			d.classifyTemplate(all)
		}
	}
	return all
}

// confirm gives kinds the role that their names suggest if they have the label of a contract and no other kind has the role:
// the rules of the role then name the field that is missing.
func confirm(all Definitions) {
	taken := map[Role]bool{}
	for _, d := range all {
		taken[d.Role] = true
	}
	for _, d := range all {
		if d.Unconfirmed != "" && d.Contract != "" && !taken[d.Unconfirmed] {
			d.Role, d.Unconfirmed = d.Unconfirmed, ""
		}
	}
}

// ofOtherProvider reports whether the name of a kind resembles a kind of infrastructure, although the provider is of another
// type and the group is not for infrastructure.
func (d *Definition) ofOtherProvider(of extractor.ProviderType) bool {
	isInfrastructure := d.Role == InfraCluster || d.Role == InfraMachine || d.Role == InfraMachinePool
	return isInfrastructure && of != "" && of != extractor.Infrastructure && !InGroup(d, "infrastructure")
}

const templateSuffix = "Template"

func (d *Definition) classify(all Definitions) {
	for _, r := range roles {
		if d.Group == CoreGroup || !strings.HasSuffix(d.DefinedKind, r.kind) || d.DefinedKind == r.kind && r.group != "" {
			continue
		}
		template := all.Kind(d.Group, d.DefinedKind+templateSuffix)
		inGroup := r.group == "" || InGroup(d, r.group)
		hasField := d.HasAny(r.signature)
		switch {
		case inGroup && (r.role == IPAMPool || template != nil || hasField):
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
func (d *Definition) classifyTemplate(all Definitions) {
	kind := strings.TrimSuffix(d.DefinedKind, templateSuffix)
	if of := all.Kind(d.Group, kind); of != nil {
		if of.Role != "" {
			d.Role, d.Template = of.Role, true
			return
		}
		if of.Unconfirmed == "" {
			return
		}
	}
	for _, r := range roles {
		isKind := strings.HasSuffix(kind, r.kind) && d.Group != CoreGroup
		if isKind && (r.group == "" || InGroup(d, r.group) || d.Contract != "" && d.HasAny([]string{"spec.template.spec"})) {
			d.Role, d.Template = r.role, true
			return
		}
	}
}

// Kind returns the CRD of a kind, or nil.
func (all Definitions) Kind(group, kind string) *Definition {
	for _, d := range all {
		if d.Group == group && d.DefinedKind == kind {
			return d
		}
	}
	return nil
}

// hasAll reports whether a version has all of the fields.
func (d *Definition) hasAll(fields []string) bool {
	for _, field := range fields {
		if !d.HasAny([]string{field}) {
			return false
		}
	}
	return true
}

// HasAny reports whether a version has one of the fields.
func (d *Definition) HasAny(fields []string) bool {
	for _, version := range d.At("spec", "versions").Items() {
		schema := version.At("schema", "openAPIV3Schema")
		for _, field := range fields {
			if found, _ := SchemaField(schema, field); found.Exists() {
				return true
			}
		}
	}
	return false
}

// VersionOf returns the entry of a CRD's version; it does not exist if the CRD has no such version.
func VersionOf(crd *Object, name string) Value {
	for _, version := range crd.At("spec", "versions").Items() {
		if version.At("name").Text() == name && name != "" {
			return version
		}
	}
	return Value{Object: crd, near: crd.At("spec", "versions").near}
}

// Definitions are the CRDs of a bundle.
type Definitions []*Definition

// WithRole returns the CRDs of kinds with a contract, except templates.
func (all Definitions) WithRole() Definitions {
	return Filter(all, func(d *Definition) bool { return d.Role != "" })
}

// Of returns the CRDs of kinds with one of the roles, without their templates.
func (all Definitions) Of(roles ...Role) Definitions {
	return Filter(all, func(d *Definition) bool { return !d.Template && slices.Contains(roles, d.Role) })
}

// Templates returns the templates of kinds with a role.
func (all Definitions) Templates() Definitions {
	return Filter(all, func(d *Definition) bool { return d.Template && d.Role != "" })
}

// Filter returns the elements that keep accepts.
func Filter[S ~[]T, T any](all S, keep func(T) bool) S {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !keep(one) })
}

// InGroup reports whether a label of the group of a CRD, such as infrastructure, is the given one.
func InGroup(d *Definition, label string) bool {
	return slices.Contains(strings.Split(d.Group, "."), label)
}

// Contains reports whether a list contains a string.
func Contains(list Value, text string) bool {
	return slices.Contains(list.Texts(), text)
}

// LabelOf returns the label of a CRD for a contract.
func LabelOf(crd *Object, contract string) Value {
	return crd.At("metadata", "labels", capicontract.LabelPrefix+contract)
}

// ServesVersion reports whether a CRD serves a version.
func ServesVersion(crd *Object, name string) bool {
	return VersionOf(crd, name).At("served").Text() == "true"
}

// ServedVersions returns the served versions of a CRD, for messages.
func ServedVersions(crd *Object) string {
	var names []string
	for _, version := range crd.At("spec", "versions").Items() {
		if version.At("served").Text() == "true" {
			names = append(names, version.At("name").Text())
		}
	}
	return strings.Join(names, ", ")
}

// SchemaField returns a field of a schema by a path such as "status.addresses[].type", or "status.failureDomains{}" for the values of
// a map. A field that can exist outside of
// the schema, because unknown fields are preserved, is hidden.
func SchemaField(schema Value, path string) (field Value, hidden bool) {
	for _, name := range strings.Split(path, ".") {
		name, isList := strings.CutSuffix(name, "[]")
		name, isMap := strings.CutSuffix(name, "{}")
		if open := schema.At("x-kubernetes-preserve-unknown-fields").Text() == "true"; open {
			hidden = true
		}
		schema = schema.At("properties", name)
		if isList {
			schema = schema.At("items")
		}
		if isMap {
			schema = schema.At("additionalProperties")
		}
	}
	return schema, hidden && !schema.Exists()
}

// The types of fields in a schema.
const (
	TypeString  = "string"
	TypeBoolean = "boolean"
	TypeInteger = "integer"
	TypeArray   = "array"
	TypeObject  = "object"
)

// SchemaType returns the type in a schema, for messages too.
func SchemaType(schema Value) string {
	if schema.At("x-kubernetes-int-or-string").Text() == "true" {
		return "integer or string"
	}
	return schema.At("type").Text()
}

// HasField reports whether the version that Cluster API uses has a field.
func (d *Definition) HasField(field string) bool {
	found, _ := SchemaField(d.Schema, field)
	return found.Exists()
}

// Missing returns a finding for each field that is missing in the version that Cluster API uses.
func (d *Definition) Missing(fields ...string) (findings Findings) {
	for _, field := range fields {
		if found, hidden := SchemaField(d.Schema, field); !found.Exists() && !hidden {
			findings = append(findings, found.Finding("%s is missing in version %s, which Cluster API uses", field, d.Version)...)
		}
	}
	return findings
}

// Mistyped returns a finding for a field with another type in the version that Cluster API uses.
func (d *Definition) Mistyped(field string, types ...string) Findings {
	found, _ := SchemaField(d.Schema, field)
	kind := SchemaType(found)
	if !found.Exists() || kind == "" || slices.Contains(types, kind) {
		return nil
	}
	return found.Finding("%s is of type %s in version %s, not %s", field, kind, d.Version, strings.Join(types, " or "))
}
