// SPDX-License-Identifier: Apache-2.0

package rbacrule

import (
	"cmp"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capi-installer/capi-installer/internal/object"
)

// Permission is one verb on one resource, or on one non-resource URL. Verb, Group,
// Resource and URL can be wildcards, as in a rule.
type Permission struct {
	Verb, Group, Resource string
	// Name limits the permission to one object; empty means all objects.
	Name string
	// URL is a non-resource URL, instead of Group, Resource and Name.
	URL string
}

// Of returns the permissions of a rule.
func Of(rule rbacv1.PolicyRule) []Permission {
	var all []Permission
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			all = append(all, Permission{Verb: verb, URL: url})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					all = append(all, Permission{Verb: verb, Group: group, Resource: resource, Name: name})
				}
			}
		}
	}
	return all
}

// Covers reports whether p includes other, as in the escalation check of Kubernetes.
func (p Permission) Covers(other Permission) bool {
	switch {
	case p.Verb != other.Verb && p.Verb != rbacv1.VerbAll:
		return false
	case cmp.Or(p.URL, other.URL) != "":
		return CoversURL(p.URL, other.URL)
	case p.Group != other.Group && p.Group != rbacv1.APIGroupAll:
		return false
	}
	return (p.Name == "" || p.Name == other.Name) && CoversResource(p.Resource, other.Resource)
}

// RulesOf returns the rules of a Role or ClusterRole. Fields of another type are
// omitted.
func RulesOf(role map[string]any) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, rule := range object.MapsAt(role, "rules") {
		rules = append(rules, rbacv1.PolicyRule{
			Verbs:           object.TextsAt(rule, "verbs"),
			APIGroups:       object.TextsAt(rule, "apiGroups"),
			Resources:       object.TextsAt(rule, "resources"),
			ResourceNames:   object.TextsAt(rule, "resourceNames"),
			NonResourceURLs: object.TextsAt(rule, "nonResourceURLs"),
		})
	}
	return rules
}
