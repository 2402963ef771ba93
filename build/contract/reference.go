// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
)

// referenceRules are about objects that name others.
var referenceRules = []Rule{{
	ID:       "bundle/serviceaccount-exists",
	Severity: Error,
	Source:   kubernetes("Configure Service Accounts for Pods", "tasks/configure-pod-container/configure-service-account/"),
	Why:      "No pod is made for a service account that is not there.",
	Fix:      "Add the ServiceAccount to the manifests, in the namespace of the workload.",
	Check: func(b *Bundle) []Finding {
		return eachPod(func(spec Value) []Finding {
			account := spec.At("serviceAccountName")
			name, namespace := account.Text(), spec.object.Namespace
			if name == "" || name == "default" || b.has(serviceAccountKind, namespace, name) {
				return nil
			}
			return []Finding{account.finding("there is no ServiceAccount %s/%s of the provider", namespace, name)}
		})(b)
	},
}, {
	ID:       "rbac/roleref-exists",
	Severity: Warning,
	Source:   kubernetes("RoleBinding and ClusterRoleBinding", "reference/access-authn-authz/rbac/"),
	Why:      "A binding to a role that is not there grants nothing, and the provider fails when it first needs it.",
	Fix:      "Add the role to the manifests, or correct the name. A role that somebody else brings is all right.",
	Check:    checkRoleRefs,
}}

func checkRoleRefs(b *Bundle) (findings []Finding) {
	for _, binding := range b.ofKind(roleBindingKind, clusterBindingKind) {
		role := binding.At("roleRef")
		name := role.At("name")
		exists := b.has(clusterRoleKind, "", name.Text()) || isBuiltIn(name.Text())
		if role.At("kind").Text() == roleKind.Kind {
			exists = b.has(roleKind, binding.Namespace, name.Text())
		}
		if !exists && name.Text() != "" {
			findings = append(findings, name.finding("there is no %s %s of the provider", role.At("kind").Text(), name.Text()))
		}
	}
	return findings
}

// isBuiltIn says whether every cluster has a cluster role.
func isBuiltIn(name string) bool {
	return strings.HasPrefix(name, "system:") || slices.Contains([]string{"cluster-admin", "admin", "edit", "view"}, name)
}
