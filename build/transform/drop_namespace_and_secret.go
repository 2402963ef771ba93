// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
)

var dropNamespaceAndSecret = Transform{
	Name: "drop-namespace-and-secret",
	Does: "Drops Namespaces and Secrets.",
	Why:  "The installer's namespace already exists, and providers must not modify it. Credentials do not belong in a public image.",
	Apply: func(objects []*unstructured.Unstructured, _ Options) ([]*unstructured.Unstructured, error) {
		return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
			return object.GroupKind(o) == object.Namespace || object.GroupKind(o) == object.Secret
		}), nil
	},
}
