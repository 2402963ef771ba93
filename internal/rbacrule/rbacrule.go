// SPDX-License-Identifier: Apache-2.0

// Package rbacrule compares RBAC rules as the escalation check of Kubernetes does, with
// its code (k8s.io/component-helpers/auth/rbac/validation).
package rbacrule

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

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
	for _, single := range validation.BreakdownRule(rule) {
		permission := Permission{Verb: single.Verbs[0]}
		if single.NonResourceURLs != nil {
			permission.URL = single.NonResourceURLs[0]
		} else {
			permission.Group, permission.Resource = single.APIGroups[0], single.Resources[0]
		}
		if single.ResourceNames != nil {
			permission.Name = single.ResourceNames[0]
		}
		all = append(all, permission)
	}
	return all
}

// Covers reports whether p includes other.
func (p Permission) Covers(other Permission) bool { return covers(p.Rule(), other.Rule()) }

// rule returns the rule with only this permission.
func (p Permission) Rule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{Verbs: []string{p.Verb}}
	if p.URL != "" {
		rule.NonResourceURLs = []string{p.URL}
		return rule
	}
	rule.APIGroups, rule.Resources = []string{p.Group}, []string{p.Resource}
	if p.Name != "" {
		rule.ResourceNames = []string{p.Name}
	}
	return rule
}

// Allows reports whether a rule allows a verb on every object of a resource.
func Allows(rule rbacv1.PolicyRule, group, resource, verb string) bool {
	return covers(rule, Permission{Verb: verb, Group: group, Resource: resource}.Rule())
}

func covers(rule, other rbacv1.PolicyRule) bool {
	all, _ := validation.Covers([]rbacv1.PolicyRule{rule}, []rbacv1.PolicyRule{other})
	return all
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
