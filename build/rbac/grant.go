// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kubernetes lets somebody write a role if they hold all that it grants, or if
// they may "escalate" it; and bind a role if they hold all that it grants, or if they
// may "bind" it.
//
// To hold what a role grants is the least, where that is enough: the installer can run a
// pod with the service account of a provider anyway, so whoever has the installer has what the
// providers have, and with "escalate" everything else too. That cannot be narrowed
// to some roles, because Kubernetes does not look at the name where a role is created.
//
// But of a ClusterRole that gathers the rules of others, of which Cluster API's core
// has one, nobody knows what it will grant, and Kubernetes asks for "escalate" or for
// everything there is. Where there is such a role, "escalate" takes care of all ClusterRoles.
//
// A binding is tried before the role that it binds is there, and then nobody holds
// what the role grants. So "bind" is always needed; it is narrowed to the name of the role.

// addGrants adds what it takes to write the roles and bindings among objects, and the
// bindings of admission policies.
func (n needs) addGrants(objects []*unstructured.Unstructured, known resources) {
	escalates := slices.ContainsFunc(objects, gathers)
	for _, object := range objects {
		n.addParams(object, objects, known)
		switch kind := kindOf(object); {
		case kind == clusterRoleKind && escalates:
			n.add(forEscalate, permission{group: clusterRoles.Group, resource: clusterRoles.Resource, verb: "escalate"})
		case kind == clusterRoleKind, kind == roleKind:
			n.hold(object)
		case kind == clusterRoleBindingKind, kind == roleBindingKind:
			n.bind(object)
		}
	}
}

// gathers says whether an object is a ClusterRole that gathers the rules of others.
func gathers(object *unstructured.Unstructured) bool {
	return kindOf(object) == clusterRoleKind && object.Object["aggregationRule"] != nil
}

// hold adds all that a role grants.
func (n needs) hold(role *unstructured.Unstructured) {
	for _, rule := range rulesOf(role) {
		for _, granted := range permissionsOf(role.GetNamespace(), rule) {
			n.add(forGrant, granted)
		}
	}
}

// rulesOf are the rules of a role. What the API server could not read grants nothing.
func rulesOf(role *unstructured.Unstructured) []rbacv1.PolicyRule {
	var read rbacv1.Role
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"rules": role.Object["rules"]}, &read); err != nil {
		return nil
	}
	return read.Rules
}

// bind adds the permission to bind the role that a binding names.
func (n needs) bind(binding *unstructured.Unstructured) {
	kind, _, _ := unstructured.NestedString(binding.Object, "roleRef", "kind")
	name, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
	resource := rolesResource
	if kind == clusterRoleKind.Kind {
		resource = clusterRoles
	}
	n.add(forBind, permission{namespace: binding.GetNamespace(), group: resource.Group, resource: resource.Resource, verb: "bind", name: name})
}

// addParams adds the permission to read the parameters that a binding gives to an
// admission policy, if it is one; of which kind they are, the policy says.
func (n needs) addParams(binding *unstructured.Unstructured, objects []*unstructured.Unstructured, known resources) {
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
