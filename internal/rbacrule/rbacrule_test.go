// SPDX-License-Identifier: Apache-2.0

package rbacrule_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"pgregory.net/rapid"

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

func ExamplePermission_Covers() {
	role := map[string]any{"rules": []any{map[string]any{
		"apiGroups": []any{"cluster.x-k8s.io"}, "resources": []any{"*/status"}, "verbs": []any{"patch"}, "resourceNames": []any{"demo"},
	}}}
	for _, rule := range rbacrule.RulesOf(role) {
		for _, granted := range rbacrule.Of(rule) {
			fmt.Println(granted.Covers(rbacrule.Permission{Verb: "patch", Group: "cluster.x-k8s.io", Resource: "machines/status", Name: "demo"}))
			fmt.Println(granted.Covers(rbacrule.Permission{Verb: "patch", Group: "cluster.x-k8s.io", Resource: "machines/status"}))
		}
	}
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

// TestPermission_CoversAsTheAPIServerDoes compares Covers with the rules of the API
// server for all requests in a small set of verbs, groups, resources and names.
func TestPermission_CoversAsTheAPIServerDoes(t *testing.T) {
	one := func(values ...string) *rapid.Generator[string] { return rapid.SampledFrom(values) }
	draw := func(t *rapid.T, label string) rbacrule.Permission {
		return rbacrule.Permission{
			Verb: one("get", "list", "*").Draw(t, label+" verb"), Group: one("", "a", "*").Draw(t, label+" group"),
			Resource: one("x", "x/s", "y", "*/s", "*").Draw(t, label+" resource"), Name: one("", "n", "m").Draw(t, label+" name"),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		g, asked := draw(t, "rule"), draw(t, "asked")
		covers := true
		for _, verb := range []string{"get", "list", "watch"} {
			for _, group := range []string{"", "a", "b"} {
				for _, resource := range []string{"x", "x/s", "y", "y/s", "z", "z/t"} {
					for _, name := range []string{"n", "m", "o"} {
						if allows(asked, verb, group, resource, name) && !allows(g, verb, group, resource, name) {
							covers = false
						}
					}
				}
			}
		}
		if got := g.Covers(asked); got != covers {
			t.Errorf("%+v covers %+v: %v, want %v", g, asked, got, covers)
		}
	})
}

// allows matches a request against a rule with one verb, group, resource and name.
func allows(rule rbacrule.Permission, verb, group, resource, name string) bool {
	_, sub, isSub := strings.Cut(resource, "/")
	return (rule.Verb == "*" || rule.Verb == verb) && (rule.Group == "*" || rule.Group == group) &&
		(rule.Resource == "*" || rule.Resource == resource || isSub && rule.Resource == "*/"+sub) && (rule.Name == "" || rule.Name == name)
}
