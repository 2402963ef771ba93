// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kubernetes accepts a role from a user who has all its permissions, or may
// "escalate" it; and a binding from a user who has all permissions of the role, or
// may "bind" it.
//
// If possible, the installer gets the permissions of the roles themselves, which is
// the minimum: it can run a pod with the service account of a provider anyway, so a
// compromised installer has the permissions of the providers in any case.
// "escalate" would also give it all other permissions. It cannot be limited to
// names, because the authorizer does not know the name in a create request.
//
// The permissions of a ClusterRole with an aggregation rule, which core Cluster API
// has, are not known in advance. Kubernetes then requires "escalate" or all
// permissions, and "escalate" covers all ClusterRoles.
//
// The dry run of a binding precedes the creation of its role, and the installer
// does not have the permissions of the role yet. So "bind" is always needed; it is
// limited to the name of the role.

// addGrants adds the permissions to write the roles and bindings among objects, and the
// bindings of admission policies.
func (n requiredPermissions) addGrants(objects []*unstructured.Unstructured, known resources) {
	escalates := slices.ContainsFunc(objects, gathers)
	for _, object := range objects {
		n.addParams(object, objects, known)
		switch kind := kindOf(object); {
		case kind == clusterRoleKind && escalates:
			n.add(forEscalate, permission{group: clusterRoles.Group, resource: clusterRoles.Resource, verb: "escalate"})
		case kind == clusterRoleKind, kind == roleKind:
			n.addRole(object)
		case kind == clusterRoleBindingKind, kind == roleBindingKind:
			n.bind(object)
		}
	}
}

// gathers reports whether an object is a ClusterRole with an aggregation rule.
func gathers(object *unstructured.Unstructured) bool {
	return kindOf(object) == clusterRoleKind && object.Object["aggregationRule"] != nil
}

// addRole adds all permissions of a role.
func (n requiredPermissions) addRole(role *unstructured.Unstructured) {
	for _, rule := range rulesOf(role) {
		for _, granted := range permissionsOf(role.GetNamespace(), rule) {
			n.add(forGrant, granted)
		}
	}
}

// rulesOf returns the rules of a role; none if they are invalid.
func rulesOf(role *unstructured.Unstructured) []rbacv1.PolicyRule {
	var read rbacv1.Role
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"rules": role.Object["rules"]}, &read); err != nil {
		return nil
	}
	return read.Rules
}

// bind adds the permission to bind the role that a binding names.
func (n requiredPermissions) bind(binding *unstructured.Unstructured) {
	kind, _, _ := unstructured.NestedString(binding.Object, "roleRef", "kind")
	name, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
	resource := rolesResource
	if kind == clusterRoleKind.Kind {
		resource = clusterRoles
	}
	n.add(forBind, permission{namespace: binding.GetNamespace(), group: resource.Group, resource: resource.Resource, verb: "bind", name: name})
}

// addParams adds the permission to read the parameters in the binding of an
// admission policy. The policy defines the kind of the parameters.
func (n requiredPermissions) addParams(binding *unstructured.Unstructured, objects []*unstructured.Unstructured, known resources) {
	paramRef, found, _ := unstructured.NestedMap(binding.Object, "spec", "paramRef")
	policy, isBinding := strings.CutSuffix(binding.GetKind(), "Binding")
	name, _, _ := unstructured.NestedString(binding.Object, "spec", "policyName")
	if !found || !isBinding {
		return
	}
	for _, object := range objects {
		if object.GetKind() != policy || object.GetName() != name {
			continue
		}
		kind, _, _ := unstructured.NestedStringMap(object.Object, "spec", "paramKind")
		param := &unstructured.Unstructured{}
		param.SetAPIVersion(kind["apiVersion"])
		param.SetKind(kind["kind"])
		resource, verb := known.of(param), "get"
		in, _ := paramRef["namespace"].(string)
		one, _ := paramRef["name"].(string)
		if one == "" {
			verb = "list"
		}
		n.add(forParams, permission{namespace: in, group: resource.Group, resource: resource.Resource, verb: verb, name: one})
	}
}
