// SPDX-License-Identifier: Apache-2.0

// Package capicontract knows the contracts between Cluster API and its providers:
// the labels by which a CRD names the versions that keep a contract, and the
// release series of clusterctl's metadata.yaml.
//
// The label "cluster.x-k8s.io/v1beta2: v1beta1_v1beta2" means that the versions
// v1beta1 and v1beta2 of a CRD keep the contract v1beta2. Cluster API takes the
// label of the newest contract that it supports, and uses the highest version in
// it, in whatever order they are written.
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

// LabelPrefix is the prefix of contract labels; the contract follows it.
const LabelPrefix = "cluster.x-k8s.io/"

// Newest is the newest contract that Cluster API supports.
const Newest = "v1beta2"

// MetadataVersion is the apiVersion of the metadata.yaml of a release.
const MetadataVersion = "clusterctl.cluster.x-k8s.io/v1alpha3"

// Supported returns the contracts that Cluster API supports, the newest first.
func Supported() []string { return []string{Newest, "v1beta1"} }

// Known returns every contract there is or was, the oldest first. clusterctl
// rejects a release series with another one.
func Known() []string {
	return []string{"v1alpha1", "v1alpha2", "v1alpha3", "v1alpha4", "v1beta1", Newest}
}

var versionPattern = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// IsVersion reports whether text is a Kubernetes API version, such as v1 or
// v1beta2. Contracts have this form too.
func IsVersion(text string) bool { return versionPattern.MatchString(text) }

// OfLabel returns the contract that a label key is about. It returns false for
// every other key, such as cluster.x-k8s.io/provider.
func OfLabel(key string) (contract string, ok bool) {
	contract, ok = strings.CutPrefix(key, LabelPrefix)
	if !ok || !IsVersion(contract) {
		return "", false
	}
	return contract, true
}

// Compare compares two contracts or API versions by age: v1beta1 < v1beta2 < v1.
func Compare(a, b string) int { return version.CompareKubeAwareVersionStrings(a, b) }

// Of returns the contract by which Cluster API reads a CRD with these labels: the
// newest supported one. A CRD that is labelled for other contracts only is of the
// newest of these; Cluster API does not find its versions. Of returns "" if there
// is no contract label.
func Of(labels map[string]string) string {
	for _, contract := range Supported() {
		if labels[LabelPrefix+contract] != "" {
			return contract
		}
	}
	newest := ""
	for key := range labels {
		if contract, ok := OfLabel(key); ok && labels[key] != "" && (newest == "" || Compare(contract, newest) > 0) {
			newest = contract
		}
	}
	return newest
}

// Versions returns the versions in the value of a contract label, the highest
// first. Cluster API uses the first one.
func Versions(value string) []string {
	versions := strings.Split(value, "_")
	slices.SortFunc(versions, func(a, b string) int { return Compare(b, a) })
	return versions
}

// Series is a release series: all versions with one major and one minor number.
type Series struct{ Major, Minor uint }

// SeriesOf returns the series of a version, and false if clusterctl does not
// accept it as a semantic version.
func SeriesOf(text string) (Series, bool) {
	parsed, err := utilversion.ParseSemantic(text)
	if err != nil {
		return Series{}, false
	}
	return Series{Major: parsed.Major(), Minor: parsed.Minor()}, true
}

// String returns the series as people write it: "1.12".
func (s Series) String() string { return fmt.Sprintf("%d.%d", s.Major, s.Minor) }

// Compare compares two series by age.
func (s Series) Compare(other Series) int {
	return cmp.Or(cmp.Compare(s.Major, other.Major), cmp.Compare(s.Minor, other.Minor))
}
