// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"

	"github.com/capi-installer/capi-installer/internal/capicontract"
)

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
