// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/relocation"
)

var moveToNamespace = Transform{
	Name: "namespace",
	Does: "Moves namespaced objects, and the references to them, into one namespace; --namespace names another one, --keep-namespace disables it.",
	Why:  "The installer and the providers have permissions in this namespace only, and network and admission policies protect it.",
	Apply: func(objects []*unstructured.Unstructured, o Options) ([]*unstructured.Unstructured, error) {
		if !o.KeepNamespaces {
			scopes := object.DefinedScopes(objects)
			relocation.New(relocation.Namespaces(objects, scopes), o.Namespace).Move(objects, scopes)
		}
		return objects, nil
	},
}

// MissingNamespaces returns a message for each namespace that the installer does not have: the bundle contains no Namespaces.
func MissingNamespaces(objects []*unstructured.Unstructured, profile extractor.ClusterProfile) (missing []string) {
	if profile == extractor.OpenShift {
		return nil // such a bundle is invalid there
	}
	for _, namespace := range relocation.Namespaces(objects, object.DefinedScopes(objects)) {
		if namespace != profile.Namespaces().Operand {
			missing = append(missing, fmt.Sprintf("the bundle does not create namespace %s; create it, and let the installer write there: capi-manifests rbac prints the roles", namespace))
		}
	}
	return missing
}
