// SPDX-License-Identifier: Apache-2.0

package transform

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// protectionPrefix is the prefix of the policy names, as in OpenShift's own providers.
const protectionPrefix = "openshift-cluster-api-protect-"

// notTheOwnCluster is true for all objects except the InfraCluster of the cluster
// itself, whose name is in the Infrastructure object. While the Infrastructure
// object has no name, there is no such InfraCluster.
const notTheOwnCluster = "!has(params.status) || !has(params.status.infrastructureName) || oldObject.metadata.name != params.status.infrastructureName"

// protectInfraCluster adds a ValidatingAdmissionPolicy and its binding for each
// InfraCluster resource that the objects define.
var protectInfraCluster = Transform{
	Name:    "infra-cluster-protection",
	Does:    "Adds an admission policy for each InfraCluster resource that denies the deletion of the cluster's own object; --protect-cluster-resource limits the resources.",
	Why:     "Deleting the cluster's own InfraCluster deletes its load balancers, networks and machines.",
	Profile: only(extractor.OpenShift),
	Apply: func(objects []*unstructured.Unstructured, o Options) ([]*unstructured.Unstructured, error) {
		crds, err := protectedCRDs(objects, o.ProtectClusters)
		if err != nil {
			return nil, err
		}
		existing := map[object.Identity]bool{}
		for _, obj := range objects {
			existing[object.IdentityOf(obj)] = true
		}
		taken := map[string]bool{}
		for _, crd := range crds {
			name := protectionPrefix + singularOf(crd)
			if taken[name] { // another group has a kind of the same name
				name += "." + object.TextAt(crd.Object, "spec", "group")
			}
			taken[name] = true
			for _, obj := range protection(name, crd, o.Namespace) {
				if !existing[object.IdentityOf(obj)] {
					objects = append(objects, obj)
				}
			}
		}
		return objects, nil
	},
}

// protectedCRDs returns the CRDs with the given singular names, or all InfraCluster
// CRDs if there are no names.
func protectedCRDs(objects []*unstructured.Unstructured, singulars []string) ([]*unstructured.Unstructured, error) {
	var crds []*unstructured.Unstructured
	var infra, found []string
	for _, o := range objects {
		if object.GroupKind(o) != object.CustomResourceDefinition {
			continue
		}
		singular, isInfra := singularOf(o), isInfraCluster(o)
		if isInfra {
			infra = append(infra, singular)
		}
		if slices.Contains(singulars, singular) || len(singulars) == 0 && isInfra {
			crds, found = append(crds, o), append(found, singular)
		}
	}
	var errs []error
	for _, singular := range singulars {
		if !slices.Contains(found, singular) {
			errs = append(errs, fmt.Errorf("CRD with singular name %q not found; InfraCluster resources: %s", singular, cmp.Or(strings.Join(infra, ", "), "none")))
		}
	}
	return crds, errors.Join(errs...)
}

func singularOf(crd *unstructured.Unstructured) string {
	return cmp.Or(object.TextAt(crd.Object, "spec", "names", "singular"), strings.ToLower(object.TextAt(crd.Object, "spec", "names", "kind")))
}

// isInfraCluster reports whether a Cluster's infrastructureRef may refer to the CRD: the kind is
// <environment>Cluster in the common API group, or in another one with a contract label and an endpoint.
func isInfraCluster(crd *unstructured.Unstructured) bool {
	kind := object.TextAt(crd.Object, "spec", "names", "kind")
	if !strings.HasSuffix(kind, "Cluster") || kind == "Cluster" {
		return false
	}
	return object.TextAt(crd.Object, "spec", "group") == "infrastructure.cluster.x-k8s.io" ||
		capicontract.Of(crd.GetLabels()) != "" && hasEndpoint(crd)
}

func hasEndpoint(crd *unstructured.Unstructured) bool {
	for _, version := range object.MapsAt(crd.Object, "spec", "versions") {
		spec := object.MapAt(version, "schema", "openAPIV3Schema", "properties", "spec", "properties")
		if _, found := spec["controlPlaneEndpoint"]; found {
			return true
		}
	}
	return false
}

// protection returns the policy for a CRD and its binding.
func protection(name string, crd *unstructured.Unstructured, namespace string) []*unstructured.Unstructured {
	policy := map[string]any{
		"spec": map[string]any{
			"failurePolicy": "Fail",
			"paramKind":     map[string]any{"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure"},
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []any{object.TextAt(crd.Object, "spec", "group")}, "apiVersions": []any{"*"},
				"operations": []any{"DELETE"}, "resources": []any{object.TextAt(crd.Object, "spec", "names", "plural")},
			}}},
			"validations": []any{map[string]any{
				"expression": notTheOwnCluster,
				"message":    "InfraCluster resources with metadata.name corresponding to the cluster infrastructureName cannot be deleted.",
			}},
		},
	}
	binding := map[string]any{
		"spec": map[string]any{
			"policyName":        name,
			"validationActions": []any{"Deny"},
			"paramRef":          map[string]any{"name": "cluster", "parameterNotFoundAction": "Deny"},
			"matchResources": map[string]any{"namespaceSelector": map[string]any{
				"matchLabels": map[string]any{corev1.LabelMetadataName: namespace},
			}},
		},
	}
	objects := []*unstructured.Unstructured{{Object: policy}, {Object: binding}}
	for i, kind := range []schema.GroupKind{object.ValidatingAdmissionPolicy, object.ValidatingAdmissionPolicyBinding} {
		objects[i].SetGroupVersionKind(kind.WithVersion("v1"))
		objects[i].SetName(name)
		if provider := crd.GetLabels()[capicontract.ProviderLabel]; provider != "" {
			objects[i].SetLabels(map[string]string{capicontract.ProviderLabel: provider})
		}
	}
	return objects
}
