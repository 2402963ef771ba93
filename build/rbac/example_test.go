// SPDX-License-Identifier: Apache-2.0

package rbac_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

func ExampleMinimalRules() {
	objects, err := yamldoc.Objects([]byte(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: capa-controller-manager, namespace: openshift-cluster-api}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: capa-leader-election, namespace: openshift-cluster-api}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: capa-leader-election}
`))
	if err != nil {
		panic(err)
	}
	for _, rule := range rbac.MinimalRules(objects, rbac.Options{}) {
		fmt.Println(rule.Verbs, rule.Resources, rule.ResourceNames)
	}
	// Output:
	// [create list watch] [deployments] []
	// [create list watch] [rolebindings] []
	// [delete get patch] [deployments] [capa-controller-manager]
	// [delete get patch] [rolebindings] [capa-leader-election]
	// [bind] [roles] [capa-leader-election]
}
