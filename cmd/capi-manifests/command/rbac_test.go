// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"os"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capi-installer/capi-installer/build/rbac"
)

func exampleRules() []rbac.Rule {
	rule := func(namespace, why, group, resource string, verbs []string, names ...string) rbac.Rule {
		return rbac.Rule{Namespace: namespace, Why: why, PolicyRule: rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs, ResourceNames: names}}
	}
	return []rbac.Rule{
		rule("", "watches installed objects", "apps", "deployments", []string{"list", "watch"}),
		rule("", "watches installed objects", "", "services", []string{"list", "watch"}),
		rule("", "applies objects", "apiextensions.k8s.io", "customresourcedefinitions", []string{"patch"}, "a", "b", "c", "d", "e"),
		rule("capi", "applies objects", "apps", "deployments", []string{"patch"}, "a", "b", "c", "d"),
	}
}

func Example_rbacTable() {
	var out bytes.Buffer
	rbacTable(&out, exampleRules())
	fmt.Print(out.String())
	// Output:
	// everywhere: watches installed objects
	//   list,watch  deployments.apps
	//   list,watch  services
	//
	// everywhere: applies objects
	//   patch  customresourcedefinitions.apiextensions.k8s.io  a,b,c and 2 more
	//
	// in capi: applies objects
	//   patch  deployments.apps  a,b,c,d
}

// The reason is written once for consecutive rules, above the first of them in its role.
func Example_rbacYAML() {
	if err := rbacYAML(os.Stdout, exampleRules(), rbac.RolesOf(exampleRules(), "example", "openshift-cluster-api-operator")); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ---
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: ClusterRole
	// metadata:
	//   labels:
	//     capi-operator.openshift.io/aggregate-to-installer: "true"
	//   name: example
	// rules:
	// # watches installed objects
	// - apiGroups:
	//   - apps
	//   resources:
	//   - deployments
	//   verbs:
	//   - list
	//   - watch
	// - apiGroups:
	//   - ""
	//   resources:
	//   - services
	//   verbs:
	//   - list
	//   - watch
	// # applies objects
	// - apiGroups:
	//   - apiextensions.k8s.io
	//   resourceNames:
	//   - a
	//   - b
	//   - c
	//   - d
	//   - e
	//   resources:
	//   - customresourcedefinitions
	//   verbs:
	//   - patch
	// ---
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: Role
	// metadata:
	//   name: example
	//   namespace: capi
	// rules:
	// # applies objects
	// - apiGroups:
	//   - apps
	//   resourceNames:
	//   - a
	//   - b
	//   - c
	//   - d
	//   resources:
	//   - deployments
	//   verbs:
	//   - patch
	// ---
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: RoleBinding
	// metadata:
	//   name: example
	//   namespace: capi
	// roleRef:
	//   apiGroup: rbac.authorization.k8s.io
	//   kind: Role
	//   name: example
	// subjects:
	// - kind: ServiceAccount
	//   name: cluster-api-installer
	//   namespace: openshift-cluster-api-operator
}
