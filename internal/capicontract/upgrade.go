// SPDX-License-Identifier: Apache-2.0

package capicontract

import utilversion "k8s.io/apimachinery/pkg/util/version"

// clusterctl's rules for upgrades, as sigs.k8s.io/cluster-api v1.14 has them in cmd/clusterctl/client/cluster. Its package cannot be
// linked: it is a client of its own repositories and inventory. A test of module test/clusterctl compares both.

// MaxMinors is the number of minor versions by which an upgrade of a provider of Cluster API itself may advance.
const MaxMinors = 3

// firstChecked is the oldest version that the rule is about.
var firstChecked = utilversion.MustParseSemantic("v1.10.0")

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
