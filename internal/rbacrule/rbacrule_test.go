// SPDX-License-Identifier: Apache-2.0

package rbacrule_test

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capi-installer/capi-installer/internal/rbacrule"
)

func ExampleAllows() {
	rule := rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"*/scale"}, Verbs: []string{"get", "update"}}
	fmt.Println(rbacrule.Allows(rule, "apps", "deployments/scale", "update"))
	fmt.Println(rbacrule.Allows(rule, "apps", "deployments", "update"))
	// Output:
	// true
	// false
}

func TestAllows(t *testing.T) {
	t.Parallel()
	all := []string{"*"}
	for name, test := range map[string]struct {
		rule                  rbacv1.PolicyRule
		group, resource, verb string
		want                  bool
	}{
		"exact":                  {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}, "", "pods", "get", true},
		"wildcards":              {rbacv1.PolicyRule{APIGroups: all, Resources: all, Verbs: all}, "x", "y/z", "w", true},
		"another group":          {rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"pods"}, Verbs: all}, "", "pods", "get", false},
		"another verb":           {rbacv1.PolicyRule{APIGroups: all, Resources: all, Verbs: []string{"list"}}, "", "pods", "get", false},
		"a subresource":          {rbacv1.PolicyRule{APIGroups: all, Resources: []string{"pods"}, Verbs: all}, "", "pods/status", "get", false},
		"a wildcard subresource": {rbacv1.PolicyRule{APIGroups: all, Resources: []string{"*/status"}, Verbs: all}, "", "pods/status", "get", true},
		"certain names":          {rbacv1.PolicyRule{APIGroups: all, Resources: all, Verbs: all, ResourceNames: []string{"a"}}, "", "pods", "get", false},
	} {
		if got := rbacrule.Allows(test.rule, test.group, test.resource, test.verb); got != test.want {
			t.Errorf("%s: allowed is %v, want %v", name, got, test.want)
		}
	}
}

func TestCoversName(t *testing.T) {
	t.Parallel()
	if !rbacrule.CoversName(nil, "") || !rbacrule.CoversName(nil, "a") || !rbacrule.CoversName([]string{"a"}, "a") {
		t.Error("CoversName rejects a name of the rule")
	}
	if rbacrule.CoversName([]string{"a"}, "") || rbacrule.CoversName([]string{"a"}, "b") {
		t.Error("CoversName accepts a name that is not in the rule")
	}
}

func TestCoversURL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url, requested string
		want           bool
	}{{"/metrics", "/metrics", true}, {"/api/*", "/api/v1", true}, {"*", "/x", true}, {"/metrics", "/metrics/x", false}, {"*", "", false}} {
		if got := rbacrule.CoversURL(test.url, test.requested); got != test.want {
			t.Errorf("CoversURL(%q, %q) = %v", test.url, test.requested, got)
		}
	}
}
