// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"slices"
	"strings"

	apiextensionsv1alpha1 "github.com/openshift/api/apiextensions/v1alpha1"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// alwaysRelated are the objects that a support archive includes in every state, beside the namespaces of the installer and of the
// providers: the namespace of OpenShift's CRD compatibility checker, with its content; both ClusterAPI objects; and all requirements
// for CRDs, also of other operators.
var alwaysRelated = []configv1.ObjectReference{
	{Resource: "namespaces", Name: "openshift-compatibility-requirements-operator"},
	{Group: v1alpha1.Prefix, Resource: "clusterapis", Name: v1alpha1.ClusterAPIName},
	{Group: operatorv1alpha1.GroupName, Resource: "clusterapis", Name: v1alpha1.ClusterAPIName},
	{Group: apiextensionsv1alpha1.GroupName, Resource: "compatibilityrequirements"},
}

// RelatedObjects returns the objects that a support archive must include: the namespaces, alwaysRelated, every cluster-scoped object
// of the phases, and all instances of each CRD, including unmanaged CRDs.
func RelatedObjects(of v1alpha1.Namespaces, phases []revision.Phase, unmanaged []string) []configv1.ObjectReference {
	out := append([]configv1.ObjectReference{{Resource: "namespaces", Name: of.Operator}, {Resource: "namespaces", Name: of.Operand}}, alwaysRelated...)
	always := len(out)
	for _, phase := range phases {
		for _, obj := range phase.Objects {
			if obj.GetNamespace() == "" {
				out = append(out, reference(obj))
			}
			if object.IsCRD(obj) {
				out = append(out, configv1.ObjectReference{
					Group:    object.TextAt(obj.Object, "spec", "group"),
					Resource: object.TextAt(obj.Object, "spec", "names", "plural"),
				})
			}
		}
	}
	for _, name := range unmanaged {
		plural, group, _ := strings.Cut(name, ".")
		out = append(out, configv1.ObjectReference{Group: object.APIExtensionsGroup, Resource: object.CRDResource.Resource, Name: name},
			configv1.ObjectReference{Group: group, Resource: plural})
	}
	slices.SortFunc(out[always:], func(a, b configv1.ObjectReference) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(out)
}

// reference returns a reference to an object. It derives the resource from the kind in
// the way Kubernetes names its own resources.
func reference(obj *unstructured.Unstructured) configv1.ObjectReference {
	resource, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	return configv1.ObjectReference{Group: resource.Group, Resource: resource.Resource, Name: obj.GetName()}
}
