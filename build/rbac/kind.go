// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/object"
)

var (
	clusterRoles  = schema.GroupResource{Group: object.RBACGroup, Resource: "clusterroles"}
	rolesResource = schema.GroupResource{Group: object.RBACGroup, Resource: "roles"}
	requirements  = schema.GroupResource{Group: object.CompatibilityRequirement.Group, Resource: "compatibilityrequirements"}
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
	for _, o := range objects {
		if object.IsCRD(o) {
			known[object.DefinedKind(o)] = defines(o).Resource
		}
	}
	return known
}

// defines returns the resource that a CRD defines.
func defines(crd *unstructured.Unstructured) schema.GroupResource {
	return schema.GroupResource{Group: object.TextAt(crd.Object, "spec", "group"), Resource: object.TextAt(crd.Object, "spec", "names", "plural")}
}

// of returns the resource of an object. Without a CRD, it follows the convention of
// Kubernetes' own resources.
func (r resources) of(o *unstructured.Unstructured) schema.GroupResource {
	kind := object.GroupKind(o)
	for _, known := range []map[schema.GroupKind]string{r, irregular} {
		if resource, found := known[kind]; found {
			return schema.GroupResource{Group: kind.Group, Resource: resource}
		}
	}
	guessed, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	return guessed.GroupResource()
}
