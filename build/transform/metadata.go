// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/relocation"
	"github.com/capi-installer/capi-installer/internal/variable"
)

var openShiftAnnotations = Transform{
	Name:    "openshift-annotations",
	Does:    "Drops annotations and labels of OpenShift, such as required security context constraints, workload management, capabilities and run levels.",
	Why:     "They have no effect in other clusters, and mislead readers about the provider's requirements.",
	Profile: only(extractor.Kubernetes),
	Apply:   dropKeys(isOpenShiftKey),
}

// dropKeys returns an Apply that drops annotations and labels of objects and of pod templates, and maps that are empty then.
func dropKeys(match func(key string) bool) func([]*unstructured.Unstructured, Options) ([]*unstructured.Unstructured, error) {
	return eachObject(func(o *unstructured.Unstructured) {
		for _, metadata := range []map[string]any{object.MapAt(o.Object, "metadata"), object.MapAt(object.PodTemplate(o), "metadata")} {
			for _, field := range []string{"annotations", "labels"} {
				keys := object.MapAt(metadata, field)
				before := len(keys)
				if maps.DeleteFunc(keys, func(key string, _ any) bool { return match(key) }); before > 0 && len(keys) == 0 {
					delete(metadata, field)
				}
			}
		}
	})
}

// isOpenShiftKey reports whether the prefix of a key is a domain of OpenShift, except the installer's.
func isOpenShiftKey(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	return found && domain != v1alpha1.Prefix && (domain == "openshift.io" || strings.HasSuffix(domain, ".openshift.io"))
}

// clusterctlKey is the label that lets "clusterctl move" find the kinds of a management cluster.
const clusterctlKey = "clusterctl.cluster.x-k8s.io"

var clusterctlLabel = Transform{
	Name:    "clusterctl-label",
	Does:    "Labels CRDs with clusterctl.cluster.x-k8s.io, as \"clusterctl init\" does.",
	Why:     "\"clusterctl move\" finds only kinds whose CRD has the label: without it, a backup of a cluster is empty, and no error is reported.",
	Profile: only(extractor.Kubernetes),
	Apply: eachObject(func(o *unstructured.Unstructured) {
		if object.GroupKind(o) == object.CustomResourceDefinition {
			object.SetDefault(object.EnsureMap(o.Object, "metadata", "labels"), clusterctlKey, "")
		}
	}),
}

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

var variableKeys = Transform{
	Name:  "variable-keys",
	Does:  "Drops annotations and labels whose key is a variable expression.",
	Why:   "The installer substitutes variables in values, not in keys, and the API server rejects an object with such a key.",
	Apply: dropKeys(func(key string) bool { return variable.Contains([]byte(key)) }),
}
