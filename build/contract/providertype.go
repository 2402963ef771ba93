// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/extractor"
)

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
