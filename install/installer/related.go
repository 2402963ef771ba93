// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

const crdKind = "CustomResourceDefinition"

// related lists what a support archive of this operator must hold: its
// namespaces, its own object, and of each installed CRD the CRD and all objects
// of its kind.
func related(rev *revisionObjects) []configv1.ObjectReference {
	out := []configv1.ObjectReference{
		{Resource: "namespaces", Name: v1alpha1.OperatorNamespace},
		{Resource: "namespaces", Name: v1alpha1.OperandNamespace},
		{Group: v1alpha1.Prefix, Resource: "clusterapis", Name: v1alpha1.ClusterAPIName},
	}
	for _, phase := range rev.phases {
		for _, obj := range phase.Objects {
			if obj.GetKind() == crdKind {
				out = append(out, crdReferences(obj)...)
			}
		}
	}
	slices.SortFunc(out[3:], func(a, b configv1.ObjectReference) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func crdReferences(crd *unstructured.Unstructured) []configv1.ObjectReference {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	return []configv1.ObjectReference{
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: crd.GetName()},
		{Group: group, Resource: plural},
	}
}
