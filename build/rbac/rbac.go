// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// reason says what a permission is for.
type reason string

const (
	forKinds     reason = "each kind is watched, and its objects are created; neither can be narrowed to names"
	forObjects   reason = "each object is put right when it was changed, and removed at the end"
	forInstances reason = "a CRD is removed only when there is no object of its kind"
	forUnmanaged reason = "a CompatibilityRequirement is kept for each unmanaged CRD"
	forEscalate  reason = "a ClusterRole of the set gathers the rules of others; Kubernetes asks for all permissions there are, or for this, which cannot be narrowed to names where a role is created"
	forBind      reason = "each role is bound, which is tried before the role is there"
	forParams    reason = "an admission policy is bound to parameters, which whoever binds it must be able to read"
	forGrant     reason = "roles of the set grant it; Kubernetes lets nobody grant what they lack"
)

// reasons are in the order in which rules are listed.
var reasons = []reason{forKinds, forObjects, forInstances, forUnmanaged, forEscalate, forBind, forParams, forGrant}

// Options say what is known besides the objects. The zero value is right for a
// cluster in which the installer manages every CRD and has no role yet.
type Options struct {
	// UnmanagedCRDs are those that the cluster does not let the installer manage.
	UnmanagedCRDs []string
	// Held are rules that the installer has anyway; they are left out. Why is not read.
	Held []Rule
}

// Least returns the rules that the installer needs for objects, rendered as in the
// cluster. An object may come more than once: the objects of two releases give what the way
// from one to the other needs. Rules are sorted, those that hold everywhere first,
// and none covers another.
func Least(objects []*unstructured.Unstructured, options Options) []Rule {
	needed, known := needs{}, resourcesOf(objects)
	for _, object := range objects {
		if kindOf(object) == crdKind && slices.Contains(options.UnmanagedCRDs, object.GetName()) {
			needed.addUnmanaged(object)
			continue
		}
		needed.addObject(object, known.of(object))
	}
	needed.addGrants(objects, known)
	var held []permission
	for _, rule := range options.Held {
		held = append(held, permissionsOf(rule.Namespace, rule.PolicyRule)...)
	}
	return needed.without(held).rules()
}

// addObject adds what it takes to install an object, to keep it and to remove it.
func (n needs) addObject(object *unstructured.Unstructured, resource schema.GroupResource) {
	in := permission{namespace: object.GetNamespace(), group: resource.Group, resource: resource.Resource}
	watched := in
	if in.namespace != "" {
		watched.namespace = v1alpha1.OperandNamespace // the only one that the cache holds
	}
	n.addVerbs(forKinds, watched, "list", "watch")
	n.addVerbs(forKinds, in, "create")
	in.name = object.GetName()
	n.addVerbs(forObjects, in, "get", "patch", "delete")
	if kindOf(object) == crdKind {
		instances := defines(object)
		n.add(forInstances, permission{group: instances.Group, resource: instances.Resource, verb: "list"})
	}
}

// addUnmanaged adds what it takes to have the cluster check an unmanaged CRD. The
// CompatibilityRequirements of each revision have names of their own. The CRD itself
// is read and freed of the installer's marks, if it was managed before.
func (n needs) addUnmanaged(crd *unstructured.Unstructured) {
	in := permission{group: requirements.Group, resource: requirements.Resource}
	n.addVerbs(forUnmanaged, in, "list", "watch", "create", "get", "patch", "delete")
	definitions := permission{group: crdKind.Group, resource: "customresourcedefinitions"}
	n.addVerbs(forUnmanaged, definitions, "list", "watch")
	definitions.name = crd.GetName()
	n.addVerbs(forUnmanaged, definitions, "get", "patch")
}

func (n needs) addVerbs(why reason, in permission, verbs ...string) {
	for _, verb := range verbs {
		in.verb = verb
		n.add(why, in)
	}
}
