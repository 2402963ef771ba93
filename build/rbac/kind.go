// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/object"
)

var (
	crdKind                = object.CustomResourceDefinition
	clusterRoleKind        = object.ClusterRole
	roleKind               = object.Role
	clusterRoleBindingKind = object.ClusterRoleBinding
	roleBindingKind        = object.RoleBinding

	clusterRoles  = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
	rolesResource = schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}
	requirements  = schema.GroupResource{Group: "apiextensions.openshift.io", Resource: "compatibilityrequirements"}
)

// irregular lists the kinds of providers' objects whose resource is not the regular
// English plural of the kind.
var irregular = map[schema.GroupKind]string{
	{Group: "security.openshift.io", Kind: "SecurityContextConstraints"}: "securitycontextconstraints",
	{Group: "gateway.networking.k8s.io", Kind: "Gateway"}:                "gateways",
}

// resources maps kinds to resources.
type resources map[schema.GroupKind]string

// resourcesOf returns the kinds that the CRDs among objects define.
func resourcesOf(objects []*unstructured.Unstructured) resources {
	known := resources{}
	for _, crd := range objects {
		if kindOf(crd) == crdKind {
			defined := defines(crd)
			kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
			known[schema.GroupKind{Group: defined.Group, Kind: kind}] = defined.Resource
		}
	}
	return known
}

// defines returns the resource that a CRD defines.
func defines(crd *unstructured.Unstructured) schema.GroupResource {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	return schema.GroupResource{Group: group, Resource: plural}
}

// of returns the resource of an object. Without a CRD, it follows the convention of
// Kubernetes' own resources.
func (r resources) of(object *unstructured.Unstructured) schema.GroupResource {
	kind := kindOf(object)
	for _, known := range []map[schema.GroupKind]string{r, irregular} {
		if resource, found := known[kind]; found {
			return schema.GroupResource{Group: kind.Group, Resource: resource}
		}
	}
	guessed, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return guessed.GroupResource()
}

func kindOf(object *unstructured.Unstructured) schema.GroupKind {
	return object.GroupVersionKind().GroupKind()
}
