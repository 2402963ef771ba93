// SPDX-License-Identifier: Apache-2.0

package permission

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/rbacrule"
)

// Kubernetes accepts a role from a user who has all its permissions, or may
// "escalate" it; and a binding from a user who has all permissions of the role, or
// may "bind" it.
//
// If possible, the installer gets the permissions of the roles themselves. This is
// the minimum: it can run a pod with the service account of a provider anyway, so a
// compromised installer has the permissions of the providers in any case.
// "escalate" would also give it all other permissions. It cannot be limited to
// names, because the authorizer does not know the name in a create request.
//
// The permissions of a ClusterRole with an aggregation rule, such as core Cluster
// API's, are not known in advance. Kubernetes then requires "escalate" or all
// permissions, and "escalate" covers all ClusterRoles.
//
// The dry run of a binding precedes the creation of its role, and the installer
// does not have the permissions of the role yet. So "bind" is always needed; it is
// limited to the name of the role.

// addGrants adds the permissions to write the roles and bindings among objects, and the
// bindings of admission policies.
func (n requiredPermissions) addGrants(objects []*unstructured.Unstructured, known resources, held []permission) {
	escalates := slices.ContainsFunc(objects, gathers)
	for _, o := range objects {
		n.addParamKind(o, known)
		n.addParams(o, objects, known)
		switch kind := object.GroupKind(o); {
		case kind == object.ClusterRole && escalates:
			n.addVerbs(forEscalate, permissionOn("", clusterRoles), "escalate")
		case (kind == object.ClusterRole || kind == object.Role) && !covered(held, escalation(o)):
			n.addRole(o)
		case kind == object.ClusterRoleBinding, kind == object.RoleBinding:
			n.bind(o)
		}
	}
}

// escalation returns the permission to write a role with any permissions.
func escalation(role *unstructured.Unstructured) permission {
	in := permissionOn(role.GetNamespace(), rolesResource)
	if object.GroupKind(role) == object.ClusterRole {
		in = permissionOn("", clusterRoles)
	}
	in.Name, in.Verb = role.GetName(), "escalate"
	return in
}

// grantsItself reports whether the holder of permissions can grant itself others: it can write any ClusterRole, and bind it.
func grantsItself(held []permission) bool {
	for resource, verbs := range map[schema.GroupResource][]string{
		clusterRoles:        {"get", "create", "update", "delete", "escalate", "bind"},
		clusterRoleBindings: {"get", "create", "delete"},
	} {
		for _, verb := range verbs {
			wanted := permissionOn("", resource)
			wanted.Verb = verb
			if !covered(held, wanted) {
				return false
			}
		}
	}
	return true
}

// gathers reports whether an object is a ClusterRole with an aggregation rule.
func gathers(o *unstructured.Unstructured) bool {
	return object.GroupKind(o) == object.ClusterRole && o.Object["aggregationRule"] != nil
}

// addRole adds all permissions of a role.
func (n requiredPermissions) addRole(role *unstructured.Unstructured) {
	for _, rule := range rbacrule.RulesOf(role.Object) {
		for _, granted := range permissionsOf(role.GetNamespace(), rule) {
			n.add(forGrant, granted)
		}
	}
}

// bind adds the permission to bind the role that a binding names.
func (n requiredPermissions) bind(binding *unstructured.Unstructured) {
	resource := rolesResource
	if object.TextAt(binding.Object, "roleRef", "kind") == object.ClusterRole.Kind {
		resource = clusterRoles
	}
	in := permissionOn(binding.GetNamespace(), resource)
	in.Name = object.TextAt(binding.Object, "roleRef", "name")
	n.addVerbs(forBind, in, "bind")
}

// addParamKind adds the permission to read all parameters of the kind that an admission policy names. The API server
// requires it from the author of the policy.
func (n requiredPermissions) addParamKind(policy *unstructured.Unstructured, known resources) {
	if param := paramOf(policy); param != nil {
		n.addVerbs(forParams, permissionOn("", known.of(param)), "get")
	}
}

// paramOf returns an empty parameter of an admission policy; nil if it has none.
func paramOf(policy *unstructured.Unstructured) *unstructured.Unstructured {
	kind := object.MapAt(policy.Object, "spec", "paramKind")
	if kind == nil || policy.GroupVersionKind().Group != "admissionregistration.k8s.io" {
		return nil
	}
	param := &unstructured.Unstructured{}
	param.SetAPIVersion(object.TextAt(kind, "apiVersion"))
	param.SetKind(object.TextAt(kind, "kind"))
	return param
}

// addParams adds the permission to read the parameters in the binding of an
// admission policy. The policy defines the kind of the parameters.
func (n requiredPermissions) addParams(binding *unstructured.Unstructured, objects []*unstructured.Unstructured, known resources) {
	paramRef := object.MapAt(binding.Object, "spec", "paramRef")
	policy, isBinding := strings.CutSuffix(binding.GetKind(), "Binding")
	if paramRef == nil || !isBinding {
		return
	}
	for _, o := range objects {
		if o.GetKind() != policy || o.GetName() != object.TextAt(binding.Object, "spec", "policyName") {
			continue
		}
		param := paramOf(o)
		if param == nil {
			continue
		}
		in, verb := permissionOn(object.TextAt(paramRef, "namespace"), known.of(param)), "get"
		in.Name = object.TextAt(paramRef, "name")
		if in.Name == "" {
			verb = "list"
		}
		n.addVerbs(forParams, in, verb)
	}
}
