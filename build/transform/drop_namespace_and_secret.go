// SPDX-License-Identifier: Apache-2.0

package build

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var dropNamespaceAndSecret = Transform{
	Name: "drop-namespace-and-secret",
	Does: "Drops Namespaces and Secrets.",
	Why:  "The installer's namespace is there already and is not the provider's to change. Credentials do not belong into an image that everybody can pull.",
	Apply: func(objects []*unstructured.Unstructured, _ GenerateOptions) ([]*unstructured.Unstructured, error) {
		return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
			return groupKind(o) == namespaceKind || groupKind(o) == secretKind
		}), nil
	},
}
