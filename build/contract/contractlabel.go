// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"

	"github.com/capi-installer/capi-installer/internal/capicontract"
)

// contractOf returns the label of a CRD for a contract.
func contractOf(crd *Object, contract string) Value {
	return crd.At("metadata", "labels", capicontract.LabelPrefix+contract)
}

func served(crd *Object, name string) bool {
	for _, version := range crd.At("spec", "versions").Items() {
		if version.At("name").Text() == name && version.At("served").Text() == "true" {
			return true
		}
	}
	return false
}

func servedVersions(crd *Object) string {
	var names []string
	for _, version := range crd.At("spec", "versions").Items() {
		if version.At("served").Text() == "true" {
			names = append(names, version.At("name").Text())
		}
	}
	return strings.Join(names, ", ")
}
