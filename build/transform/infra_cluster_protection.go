// SPDX-License-Identifier: Apache-2.0

package build

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var bindingKind = schema.GroupKind{Group: policyKind.Group, Kind: "ValidatingAdmissionPolicyBinding"}

// protectionPrefix begins the names of the policies, which are those that OpenShift's own providers ship them by.
const protectionPrefix = "openshift-cluster-api-protect-"

// providerLabel is clusterctl's label for what belongs to a provider.
const providerLabel = "cluster.x-k8s.io/provider"

// notTheOwnCluster is true for every object but that of the cluster itself, which
// has the name that the Infrastructure object gives. A cluster that has no such name yet has no such object.
const notTheOwnCluster = "!has(params.status) || !has(params.status.infrastructureName) || oldObject.metadata.name != params.status.infrastructureName"

// protectInfraCluster adds a ValidatingAdmissionPolicy and its binding for each
// InfraCluster resource that the objects define.
var protectInfraCluster = Transform{
	Name: "infra-cluster-protection",
	Does: "Adds an admission policy for each InfraCluster resource by which nobody deletes the object of the cluster itself; --protect-cluster-resource says for which.",
	Why:  "With its InfraCluster go the load balancers, networks and machines that the cluster runs on.",
	Apply: func(objects []*unstructured.Unstructured, o GenerateOptions) ([]*unstructured.Unstructured, error) {
		crds, err := protectedCRDs(objects, o.ProtectClusters)
		if err != nil {
			return nil, err
		}
		there := map[string]bool{}
		for _, object := range objects {
			there[identityOf(object)] = true
		}
		for _, crd := range crds {
			for _, object := range protection(crd, o.Namespace) {
				if !there[identityOf(object)] {
					objects = append(objects, object)
				}
			}
		}
		return objects, nil
	},
}

func identityOf(o *unstructured.Unstructured) string {
	return groupKind(o).String() + " " + o.GetNamespace() + "/" + o.GetName()
}

// protectedCRDs returns the CRDs with the singular names, or those of InfraClusters if there are no names.
func protectedCRDs(objects []*unstructured.Unstructured, singulars []string) ([]*unstructured.Unstructured, error) {
	var crds []*unstructured.Unstructured
	var infra, found []string
	for _, o := range objects {
		if groupKind(o) != crdKind {
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
			errs = append(errs, fmt.Errorf("no CRD has the singular name %q; InfraClusters are: %s", singular, cmp.Or(strings.Join(infra, ", "), "none")))
		}
	}
	return crds, errors.Join(errs...)
}

func singularOf(crd *unstructured.Unstructured) string {
	return cmp.Or(textAt(crd.Object, "spec", "names", "singular"), strings.ToLower(textAt(crd.Object, "spec", "names", "kind")))
}

// isInfraCluster says whether a CRD is one of those that a Cluster's infrastructureRef names.
func isInfraCluster(crd *unstructured.Unstructured) bool {
	return textAt(crd.Object, "spec", "group") == "infrastructure.cluster.x-k8s.io" && strings.HasSuffix(textAt(crd.Object, "spec", "names", "kind"), "Cluster")
}

// protection returns the policy for a CRD and its binding.
func protection(crd *unstructured.Unstructured, namespace string) []*unstructured.Unstructured {
	name := protectionPrefix + singularOf(crd)
	policy := map[string]any{
		"spec": map[string]any{
			"failurePolicy": "Fail",
			"paramKind":     map[string]any{"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure"},
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []any{textAt(crd.Object, "spec", "group")}, "apiVersions": []any{"*"},
				"operations": []any{"DELETE"}, "resources": []any{textAt(crd.Object, "spec", "names", "plural")},
			}}},
			"validations": []any{map[string]any{
				"expression": notTheOwnCluster,
				"message":    "This is the cluster that you are working in: with this object its infrastructure would be deleted.",
			}},
		},
	}
	binding := map[string]any{
		"spec": map[string]any{
			"policyName":        name,
			"validationActions": []any{"Deny"},
			"paramRef":          map[string]any{"name": "cluster", "parameterNotFoundAction": "Deny"},
			"matchResources": map[string]any{"namespaceSelector": map[string]any{
				"matchLabels": map[string]any{namespaceNameLabel: namespace},
			}},
		},
	}
	objects := []*unstructured.Unstructured{{Object: policy}, {Object: binding}}
	for i, kind := range []schema.GroupKind{policyKind, bindingKind} {
		objects[i].SetGroupVersionKind(kind.WithVersion("v1"))
		objects[i].SetName(name)
		if provider := crd.GetLabels()[providerLabel]; provider != "" {
			objects[i].SetLabels(map[string]string{providerLabel: provider})
		}
	}
	return objects
}
