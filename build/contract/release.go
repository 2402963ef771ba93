// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Release is a release of a provider in a repository that clusterctl reads, with the files of its provider contract:
// the components, metadata.yaml, and templates.
type Release struct {
	// Dir is the directory of the release in the repository, "<provider label>/<version>"; empty if unknown.
	Dir string
	// Files are the files of the release, by name.
	Files map[string][]byte
}

// CheckRelease returns the metadata of the provider of a release, as far as its files and directory show them, and the
// findings of rules, file by file and from top to bottom. The findings name the file in the release; "." is its directory.
func CheckRelease(r Release, rules []Rule) (extractor.Metadata, Findings) {
	components := readRelease(r)
	provider := components[0].Metadata
	for _, b := range components {
		if b.Metadata.ProviderType == TypeOfLabel(b.Release.Label) {
			provider = b.Metadata
		}
	}
	return provider, checkComponents(components, RulesOf(FormRelease, rules))
}

// CheckReleaseForm returns the findings of the rules about releases only: the requirements of clusterctl for the files.
func CheckReleaseForm(r Release, rules []Rule) Findings {
	return checkComponents(readRelease(r), slices.DeleteFunc(slices.Clone(rules), func(rule Rule) bool { return rule.Only != FormRelease }))
}

// checkComponents checks each of the components of a release.
func checkComponents(components []*Bundle, rules []Rule) Findings {
	var findings Findings
	for _, b := range components {
		for _, rule := range rules {
			if b.File == "" && rule.Only == "" {
				continue // no objects
			}
			for _, finding := range rule.findings(b) {
				findings = append(findings, b.withFile(finding))
			}
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	seen := map[Finding]bool{} // the components share the other files
	return slices.DeleteFunc(findings, func(f Finding) bool {
		again := seen[f]
		seen[f] = true
		return again
	})
}

// withFile sets the file of a release in a finding. Findings in the metadata of a bundle are about the components file.
func (b *Bundle) withFile(f Finding) Finding {
	switch f.File {
	case MetadataFile:
		f.File, f.Field = b.File, ""
	case ManifestsFile:
		f.File = b.File
	}
	return f
}

// ComponentsNames are the conventional names of the components of each type: like their labels, and core's.
var ComponentsNames = func() map[extractor.ProviderType]string {
	names := map[extractor.ProviderType]string{extractor.Core: "core" + componentsEnd}
	for of, prefix := range LabelPrefixes {
		names[of] = strings.TrimSuffix(prefix, "-") + componentsEnd
	}
	return names
}()

// ReleaseFiles holds the common parts of all components of a Release.
type ReleaseFiles struct {
	Release
	// Label and version are the two parts of Dir.
	Label, Version string
	// Metadata is metadata.yaml; nil if it is missing or invalid.
	Metadata *Object
	// Unreadable are the findings about invalid YAML in metadata.yaml.
	Unreadable Findings
	// Templates are the cluster templates and the definitions of ClusterClasses.
	Templates []*Template
}

// readRelease reads each of the components of a release; without components it returns one bundle without objects.
func readRelease(r Release) []*Bundle {
	read := &ReleaseFiles{Release: r}
	read.Label, read.Version = path.Split(r.Dir)
	read.Label = strings.TrimSuffix(read.Label, "/")
	if text, found := r.Files[ReleaseMetadata]; found {
		b := ReadFile(ReleaseMetadata, text)
		read.Unreadable = b.Unreadable
		if len(b.Objects) > 0 {
			read.Metadata = b.Objects[0]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		if isTemplate(name) {
			read.Templates = append(read.Templates, ReadTemplate(name, r.Files[name]))
		}
	}
	var all []*Bundle
	for _, name := range r.Components() {
		all = append(all, read.read(name))
	}
	if len(all) == 0 {
		none := &Bundle{Release: read}
		none.Metadata = read.identify(none)
		all = append(all, none)
	}
	return all
}

// Components returns the names of the files with components: conventional names, or else names with their suffix, or
// else all other YAML files.
func (r Release) Components() []string {
	conventional := slices.Collect(maps.Values(ComponentsNames))
	for _, are := range []func(string) bool{
		func(name string) bool { return slices.Contains(conventional, name) },
		func(name string) bool { return strings.HasSuffix(name, componentsEnd) },
		func(name string) bool {
			return path.Ext(name) == ".yaml" && name != ReleaseMetadata && !isTemplate(name)
		},
	} {
		if names := Filter(slices.Sorted(maps.Keys(r.Files)), are); len(names) > 0 {
			return names
		}
	}
	return nil
}

// read reads components as clusterctl installs them: it sets one namespace in all namespaced objects, and in their references.
func (r *ReleaseFiles) read(name string) *Bundle {
	b := Read(extractor.Bundle{Manifests: r.Files[name]})
	b.File, b.Release = name, r
	b.Metadata = r.identify(b)
	target := cmp.Or(b.Target(), b.ownNamespace())
	for _, o := range b.Objects {
		if !b.ClusterScoped(o) {
			b.move(o.At("metadata", "namespace"), target)
			o.Namespace = cmp.Or(target, o.Namespace)
		}
		for _, subject := range o.At("subjects").Items() {
			b.move(subject.At("namespace"), target)
		}
		for _, webhook := range o.At("webhooks").Items() {
			b.move(webhook.At("clientConfig", "service", "namespace"), target)
		}
		b.move(o.At("spec", "conversion", "webhook", "clientConfig", "service", "namespace"), target)
	}
	b.evaluate()
	return b
}

// move replaces a namespace, if there is one.
func (b *Bundle) move(namespace Value, target string) {
	if text := namespace.Text(); text != "" && target != "" && text != target {
		b.Moved = append(b.Moved, namespace.Finding("the namespace is %s, not %s", text, target)...)
		namespace.Node.Value = target
	}
}

// identify derives the provider from the name of its components, the directory and the labels of its objects.
func (r *ReleaseFiles) identify(b *Bundle) extractor.Metadata {
	m := extractor.Metadata{ProviderVersion: r.Version}
	label := r.Label
	m.ProviderType = TypeOfLabel(label)
	for of, name := range ComponentsNames {
		if name == b.File && of != m.ProviderType {
			m.ProviderType, label = of, "" // components of another provider in the same directory
		}
	}
	for _, o := range b.Objects {
		label = cmp.Or(label, o.At("metadata", "labels", capicontract.ProviderLabel).Text())
	}
	m.ProviderType = cmp.Or(m.ProviderType, TypeOfLabel(label))
	switch name := strings.TrimPrefix(label, LabelPrefixes[m.ProviderType]); {
	case m.ProviderType == extractor.Core:
		m.ProviderName = "cluster-api"
	case name != "":
		m.ProviderName = "cluster-api-provider-" + name
	}
	return m
}

// TypeOfLabel returns the type of the providers with a provider label; empty if no type has such labels.
func TypeOfLabel(label string) extractor.ProviderType {
	if label == ProviderLabel(extractor.Metadata{ProviderType: extractor.Core}) {
		return extractor.Core
	}
	for of, prefix := range LabelPrefixes {
		if name, found := strings.CutPrefix(label, prefix); found && name != "" {
			return of
		}
	}
	return ""
}

// ReadFile reads a file of a release without variables.
func ReadFile(name string, text []byte) *Bundle {
	b := &Bundle{File: name, Text: text}
	b.readAll(name, text, b.read)
	return b
}

// Target returns the namespace of the provider; empty if the user chooses it at installation.
func (b *Bundle) Target() string {
	if b.Release == nil && b.Metadata.ClusterProfile == extractor.Kubernetes {
		return b.ownNamespace()
	}
	if b.Release == nil {
		return v1alpha1.OpenShiftNamespaces.Operand
	}
	for _, namespace := range b.OfKind(object.Namespace) {
		return namespace.Name
	}
	return ""
}

// ownNamespace returns the namespace of the first workload; empty if no workload has one.
func (b *Bundle) ownNamespace() string {
	for _, o := range b.Objects {
		if _, makesPods := PodTemplate(o); makesPods {
			return o.Namespace
		}
	}
	return ""
}

// LabelPrefixes are the prefixes of the provider label, by type.
var LabelPrefixes = map[extractor.ProviderType]string{
	extractor.Infrastructure: "infrastructure-", extractor.ControlPlane: "control-plane-", extractor.Bootstrap: "bootstrap-",
	extractor.IPAM: "ipam-", extractor.RuntimeExtension: "runtime-extension-", extractor.Addon: "addon-",
}

// Platforms are the OpenShift platform types, as the Infrastructure object of a cluster names them.
var Platforms = []configv1.PlatformType{
	configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.BareMetalPlatformType, configv1.GCPPlatformType,
	configv1.LibvirtPlatformType, configv1.OpenStackPlatformType, configv1.NonePlatformType, configv1.VSpherePlatformType,
	configv1.OvirtPlatformType, configv1.IBMCloudPlatformType, configv1.KubevirtPlatformType, configv1.EquinixMetalPlatformType,
	configv1.PowerVSPlatformType, configv1.AlibabaCloudPlatformType, configv1.NutanixPlatformType, configv1.ExternalPlatformType,
}

// ProviderLabel returns the value of capicontract.ProviderLabel that clusterctl would give the objects of a
// provider.
func ProviderLabel(m extractor.Metadata) string {
	if m.ProviderType == extractor.Core {
		return "cluster-api"
	}
	name, prefix := m.ProviderName, LabelPrefixes[m.ProviderType]
	for _, usual := range []string{"cluster-api-provider-", "cluster-api-", prefix, withoutDash(prefix)} {
		name = strings.TrimPrefix(name, usual)
	}
	return prefix + name
}

// IsProviderVersion reports whether a text is a semantic version with a leading v, such as v2.10.0.
func IsProviderVersion(text string) bool { return semverPattern.MatchString(text) }

// semverPattern is from https://semver.org, with a leading v.
var semverPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// ProviderTypes returns the possible types of a provider, sorted: the one that the value of its provider label names, also if
// the type is written without its dash, as in controlplane-example, or else those whose kinds its CRDs define.
func ProviderTypes(label string, manifests []byte) []extractor.ProviderType {
	if of := TypeOfLabel(label); of != "" {
		return []extractor.ProviderType{of}
	}
	for of, prefix := range LabelPrefixes {
		if strings.HasPrefix(label, withoutDash(prefix)) {
			return []extractor.ProviderType{of}
		}
	}
	var types []extractor.ProviderType
	b := Read(extractor.Bundle{Manifests: manifests})
	for _, d := range b.Definitions.WithRole() {
		types = append(types, typeOfRole[d.Role])
	}
	if b.Definitions.Kind(CoreGroup, "Cluster") != nil {
		types = append(types, extractor.Core)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// withoutDash returns another spelling of the prefix of a label, such as controlplane- for control-plane-.
func withoutDash(prefix string) string { return strings.ReplaceAll(prefix, "-", "") + "-" }

// typeOfRole has the type of the providers whose CRDs have a role.
var typeOfRole = map[Role]extractor.ProviderType{
	InfraCluster: extractor.Infrastructure, InfraMachine: extractor.Infrastructure, InfraMachinePool: extractor.Infrastructure,
	ControlPlane: extractor.ControlPlane, BootstrapConfig: extractor.Bootstrap, IPAMPool: extractor.IPAM,
}
