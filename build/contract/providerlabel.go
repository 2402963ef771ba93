// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

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
