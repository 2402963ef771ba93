// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

const crdKind = "CustomResourceDefinition"

// related lists what a support archive of this operator must hold: its
// namespaces with all that is in them, its own object, every object of the revision
// without a namespace, and of each CRD, unmanaged ones included, all objects of its kind.
func related(rev *revisionObjects) []configv1.ObjectReference {
	out := []configv1.ObjectReference{
		{Resource: "namespaces", Name: v1alpha1.OperatorNamespace},
		{Resource: "namespaces", Name: v1alpha1.OperandNamespace},
		{Group: v1alpha1.Prefix, Resource: "clusterapis", Name: v1alpha1.ClusterAPIName},
	}
	for _, phase := range rev.phases {
		for _, obj := range phase.Objects {
			if obj.GetNamespace() == "" {
				out = append(out, reference(obj))
			}
			if obj.GetKind() == crdKind {
				out = append(out, instances(obj))
			}
		}
	}
	for _, name := range rev.unmanaged {
		plural, group, _ := strings.Cut(name, ".")
		out = append(out, configv1.ObjectReference{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: name},
			configv1.ObjectReference{Group: group, Resource: plural})
	}
	slices.SortFunc(out[3:], func(a, b configv1.ObjectReference) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(out)
}

// reference names an object. The resource is guessed from the kind as Kubernetes names its own.
func reference(obj *unstructured.Unstructured) configv1.ObjectReference {
	resource, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	return configv1.ObjectReference{Group: resource.Group, Resource: resource.Resource, Name: obj.GetName()}
}

// instances names all objects of the kind of a CRD.
func instances(crd *unstructured.Unstructured) configv1.ObjectReference {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	return configv1.ObjectReference{Group: group, Resource: plural}
}
