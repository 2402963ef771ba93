// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bindings are a RoleBinding and a ClusterRoleBinding to the roles with a name.
func bindings(role string) string {
	return fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]s}, rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: %[1]s, namespace: %[2]s}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: replaced}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}, subjects: [{kind: ServiceAccount, name: manager, namespace: %[2]s}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: replaced, namespace: %[2]s}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}, subjects: [{kind: ServiceAccount, name: manager, namespace: %[2]s}]}
`, role, namespace)
}

// boundRoles returns the roles of both bindings, and the UID of the ClusterRoleBinding.
func (h *harness) boundRoles() (roles string, uid types.UID) {
	h.Helper()
	cluster, namespaced := &rbacv1.ClusterRoleBinding{}, &rbacv1.RoleBinding{}
	h.must(h.Get(context.Background(), client.ObjectKey{Name: "replaced"}, cluster))
	h.must(h.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: "replaced"}, namespaced))
	return cluster.RoleRef.Name + " " + namespaced.RoleRef.Name, cluster.UID
}

// TestRollout_ReplacesBindings: the API server allows no change of a roleRef. The next release has another one, and other
// objects are updated in place.
func TestRollout_ReplacesBindings(t *testing.T) {
	h := newInstallation(t, core(bindings("first"), configMap("settings", "1")), aws())
	before := h.object("v1/ConfigMap", namespace, "settings").GetUID()
	if roles, _ := h.boundRoles(); roles != "first first" {
		t.Errorf("bound roles: %s", roles)
	}
	h.release(core(bindings("second"), configMap("settings", "2")), aws())
	h.settled("4.22.0-2")
	if roles, _ := h.boundRoles(); roles != "second second" {
		t.Errorf("bound roles after the upgrade: %s", roles)
	}
	if after := h.object("v1/ConfigMap", namespace, "settings").GetUID(); after != before {
		t.Error("another object was replaced too")
	}
	h.loggedNone(0, "InstallerDegraded is True")
	h.namedInEvents("ObjectsReplaced", "ClusterRoleBinding replaced", "RoleBinding "+namespace+"/replaced")
	_, uid := h.boundRoles()
	h.reconcileTimes(2)
	h.expectQuiet(func() { h.reconcileTimes(3) })
	if _, again := h.boundRoles(); again != uid {
		t.Error("the binding is replaced again at rest")
	}
}
