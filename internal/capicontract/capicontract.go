// SPDX-License-Identifier: Apache-2.0

// Package capicontract defines the contracts between Cluster API and its
// providers: the labels of a CRD that list the versions that implement a
// contract, and the release series in clusterctl's metadata.yaml.
//
// The label "cluster.x-k8s.io/v1beta2: v1beta1_v1beta2" means that the versions
// v1beta1 and v1beta2 of a CRD implement the contract v1beta2. Cluster API reads
// the label of the newest contract that it supports, and uses the highest version
// in the label, regardless of their order.
package capicontract

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
)

// LabelPrefix is the prefix of contract labels. The rest of the key is the
// contract.
const LabelPrefix = "cluster.x-k8s.io/"

// ProviderLabel is the label of the objects of a provider: clusterctl and users
// find them by it.
const ProviderLabel = LabelPrefix + "provider"

// Newest is the newest contract that Cluster API supports.
const Newest = "v1beta2"

// MetadataVersion is the apiVersion of a release's metadata.yaml.
const MetadataVersion = "clusterctl.cluster.x-k8s.io/v1alpha3"

// Supported returns the contracts that Cluster API supports, newest first.
func Supported() []string { return []string{Newest, "v1beta1"} }

// Known returns all current and former contracts, oldest first. clusterctl
// rejects a release series with any other contract.
func Known() []string {
	return []string{"v1alpha1", "v1alpha2", "v1alpha3", "v1alpha4", "v1beta1", Newest}
}

var versionPattern = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// IsVersion reports whether text is a Kubernetes API version, such as v1 or
// v1beta2. Contracts have this form too.
func IsVersion(text string) bool { return versionPattern.MatchString(text) }

// OfLabel returns the contract in a label key, and false if the key is not a
// contract label, such as ProviderLabel.
func OfLabel(key string) (contract string, ok bool) {
	contract, ok = strings.CutPrefix(key, LabelPrefix)
	if !ok || !IsVersion(contract) {
		return "", false
	}
	return contract, true
}

// Compare compares two contracts or API versions by age: v1beta1 < v1beta2 < v1.
func Compare(a, b string) int { return version.CompareKubeAwareVersionStrings(a, b) }

// SupportedOf returns the contract that Cluster API uses for a CRD with these
// labels: the newest supported one. Without a label of a supported contract,
// Cluster API does not find the versions of the CRD, and SupportedOf returns "".
func SupportedOf(labels map[string]string) string {
	for _, contract := range Supported() {
		if labels[LabelPrefix+contract] != "" {
			return contract
		}
	}
	return ""
}

// Of returns the contract of a CRD with these labels: the supported one
// (SupportedOf), or else the newest unsupported one. Without contract labels, Of
// returns "".
func Of(labels map[string]string) string {
	newest := SupportedOf(labels)
	if newest != "" {
		return newest
	}
	for key := range labels {
		if contract, ok := OfLabel(key); ok && labels[key] != "" && (newest == "" || Compare(contract, newest) > 0) {
			newest = contract
		}
	}
	return newest
}

// Versions returns the versions in the value of a contract label, highest first.
// Cluster API uses the first one.
func Versions(value string) []string {
	versions := strings.Split(value, "_")
	slices.SortFunc(versions, func(a, b string) int { return Compare(b, a) })
	return versions
}

// Series is a release series: all versions with the same major and minor number.
type Series struct{ Major, Minor uint }

// SeriesOf returns the series of a version, and false if clusterctl does not
// accept the version as a semantic version.
func SeriesOf(text string) (Series, bool) {
	parsed, err := utilversion.ParseSemantic(text)
	if err != nil {
		return Series{}, false
	}
	return Series{Major: parsed.Major(), Minor: parsed.Minor()}, true
}

// String returns the major and minor number, such as "1.12".
func (s Series) String() string { return fmt.Sprintf("%d.%d", s.Major, s.Minor) }

// Compare compares two series by age.
func (s Series) Compare(other Series) int {
	return cmp.Or(cmp.Compare(s.Major, other.Major), cmp.Compare(s.Minor, other.Minor))
}

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
