// SPDX-License-Identifier: Apache-2.0

package capicontract

import (
	"slices"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// clusterctl's rules for upgrades, as sigs.k8s.io/cluster-api v1.14 has them in cmd/clusterctl/client/cluster. Its package cannot be
// linked: it is a client of its own repositories and inventory. A test of module test/clusterctl compares both.

// MaxMinors is the number of minor versions by which an upgrade of a provider of Cluster API itself may advance.
const MaxMinors = 3

// firstChecked is the oldest version that the rule is about.
var firstChecked = utilversion.MustParseSemantic("v1.10.0")

// IsClusterAPI reports whether a provider, by its type and name in metadata.yaml, is one of the providers in Cluster API's own repository.
func IsClusterAPI(kind, name string) bool {
	return kind == "core" || strings.Contains(name, "kubeadm") && (kind == "bootstrap" || kind == "controlplane")
}

// SkipsMinors reports whether an upgrade of a provider of Cluster API itself advances by more than MaxMinors. Versions that are not
// semantic are not judged.
func SkipsMinors(from, to string) bool {
	before, errBefore := utilversion.ParseSemantic(from)
	after, errAfter := utilversion.ParseSemantic(to)
	return errBefore == nil && errAfter == nil && !before.LessThan(firstChecked) && after.Minor() > before.Minor()+MaxMinors
}

// Supports reports whether a core provider with a contract supports one of the contracts in the labels of a CRD.
func Supports(core string, labels map[string]string) bool {
	return labels[LabelPrefix+core] != "" || core == Newest && SupportedOf(labels) != ""
}

// CoreCRD is the name of the CRD that has the contract of the core provider.
const CoreCRD = "clusters.cluster.x-k8s.io"

// Contracts are the contracts of the providers that are installed together, from the labels of their CRDs.
type Contracts struct {
	// Core is the contract of the core provider; empty if there is none.
	Core string
	// labels are the labels of the CRDs with contracts, by provider.
	labels map[string][]map[string]string
}

// Add adds a CRD of a provider.
func (c *Contracts) Add(provider, crd string, labels map[string]string) {
	contract := Of(labels)
	if contract == "" {
		return
	}
	if c.labels == nil {
		c.labels = map[string][]map[string]string{}
	}
	c.labels[provider] = append(c.labels[provider], labels)
	if crd == CoreCRD {
		c.Core = contract
	}
}

// Unsupported returns the providers whose CRDs have contracts, but none that the core provider supports, each with its contract.
func (c *Contracts) Unsupported() map[string]string {
	unsupported := map[string]string{}
	for provider, crds := range c.labels {
		supported := func(labels map[string]string) bool { return Supports(c.Core, labels) }
		if c.Core != "" && !slices.ContainsFunc(crds, supported) {
			unsupported[provider] = Of(crds[0])
		}
	}
	return unsupported
}
