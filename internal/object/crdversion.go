// SPDX-License-Identifier: Apache-2.0

package object

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// CRDVersions returns the names of the versions of a CRD.
func CRDVersions(crd *unstructured.Unstructured) (names []string) {
	for _, version := range MapsAt(crd.Object, "spec", "versions") {
		names = append(names, TextAt(version, "name"))
	}
	return names
}

// StorageVersion returns the name of the version in which the API server stores instances of a CRD; empty if it has no versions.
func StorageVersion(crd *unstructured.Unstructured) string {
	for _, version := range MapsAt(crd.Object, "spec", "versions") {
		if version["storage"] == true {
			return TextAt(version, "name")
		}
	}
	return ""
}

// SetStorageVersion makes one of the versions of a CRD its storage version.
func SetStorageVersion(crd *unstructured.Unstructured, name string) {
	for _, version := range MapsAt(crd.Object, "spec", "versions") {
		version["storage"] = version["name"] == name
	}
}

// ServesVersion reports whether a CRD serves a version.
func ServesVersion(crd *unstructured.Unstructured, name string) bool {
	return slices.ContainsFunc(MapsAt(crd.Object, "spec", "versions"), func(of map[string]any) bool { return of["name"] == name && of["served"] == true })
}
