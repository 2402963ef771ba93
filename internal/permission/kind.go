// SPDX-License-Identifier: Apache-2.0

package permission

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/object"
)

var (
	clusterRoles        = schema.GroupResource{Group: object.RBACGroup, Resource: "clusterroles"}
	clusterRoleBindings = schema.GroupResource{Group: object.RBACGroup, Resource: "clusterrolebindings"}
	rolesResource       = schema.GroupResource{Group: object.RBACGroup, Resource: "roles"}
	requirements        = schema.GroupResource{Group: object.CompatibilityRequirement.Group, Resource: "compatibilityrequirements"}
)

// irregular lists the kinds of providers' objects whose resource is not the regular
// English plural of the kind.
var irregular = map[schema.GroupKind]string{
	{Group: "security.openshift.io", Kind: "SecurityContextConstraints"}: "securitycontextconstraints",
	{Group: "gateway.networking.k8s.io", Kind: "Gateway"}:                "gateways",
}

// resources maps kinds to resources.
type resources struct {
	// defined are the kinds of the CRDs among the objects.
	defined map[schema.GroupKind]string
	// served returns the resource of another kind, and whether it is known.
	served func(schema.GroupVersionKind) (string, bool)
}

// resourcesOf returns the kinds that the CRDs among objects define. served may be nil.
func resourcesOf(objects []*unstructured.Unstructured, served func(schema.GroupVersionKind) (string, bool)) resources {
	if served == nil {
		served = func(schema.GroupVersionKind) (string, bool) { return "", false }
	}
	known := resources{map[schema.GroupKind]string{}, served}
	for _, o := range objects {
		if object.IsCRD(o) {
			known.defined[object.DefinedKind(o)] = defines(o).Resource
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
	for _, lookup := range []func() (string, bool){
		func() (string, bool) { resource, found := r.defined[kind]; return resource, found },
		func() (string, bool) { return r.served(o.GroupVersionKind()) },
		func() (string, bool) { resource, found := irregular[kind]; return resource, found },
	} {
		if resource, found := lookup(); found {
			return schema.GroupResource{Group: kind.Group, Resource: resource}
		}
	}
	guessed, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	return guessed.GroupResource()
}
