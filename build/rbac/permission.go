// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capi-installer/capi-installer/internal/rbacrule"
)

// permission is a single permission: one verb on one resource.
type permission struct {
	// namespace limits the permission; empty means all namespaces.
	namespace             string
	group, resource, verb string
	// name limits the permission to one object; empty means all objects.
	name string
	// url is a non-resource path, instead of group, resource and name.
	url string
}

// permissionsOf splits a rule into permissions.
func permissionsOf(namespace string, rule rbacv1.PolicyRule) (all []permission) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			all = append(all, permission{url: url, verb: verb})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					all = append(all, permission{namespace: namespace, group: group, resource: resource, verb: verb, name: name})
				}
			}
		}
	}
	return all
}

// covers reports whether p includes other, by the rules of Kubernetes' authorizer
// and of its escalation check.
func (p permission) covers(other permission) bool {
	switch {
	case p.verb != other.verb && p.verb != rbacv1.VerbAll,
		p.namespace != "" && p.namespace != other.namespace,
		(p.url == "") != (other.url == ""):
		return false
	case p.url != "":
		return rbacrule.CoversURL(p.url, other.url)
	}
	return (p.group == other.group || p.group == rbacv1.APIGroupAll) && rbacrule.CoversResource(p.resource, other.resource) && (p.name == "" || p.name == other.name)
}

// requiredPermissions maps permissions to their reasons; of several reasons, the
// first in the order of reasons.
type requiredPermissions map[permission]reason

func (n requiredPermissions) add(why reason, permission permission) {
	if known, found := n[permission]; !found || slices.Index(reasons, why) < slices.Index(reasons, known) {
		n[permission] = why
	}
}

// without returns the permissions that neither held nor another required permission
// covers. No two permissions cover each other, because they would be equal.
func (n requiredPermissions) without(held []permission) requiredPermissions {
	left := requiredPermissions{}
	for wanted, why := range n {
		covered := slices.ContainsFunc(held, func(p permission) bool { return p.covers(wanted) })
		for other := range n {
			covered = covered || other != wanted && other.covers(wanted)
		}
		if !covered {
			left[wanted] = why
		}
	}
	return left
}

// Rule is a rule of the role with its reason.
type Rule struct {
	// Namespace limits the rule; empty means all namespaces.
	Namespace string `json:"namespace,omitempty"`
	rbacv1.PolicyRule
	// Why is the operation of the installer that needs the rule.
	Why string `json:"why"`
}

// rules combines permissions: first verbs, then names, then resources, if all other
// fields are equal. The order is deterministic.
func (n requiredPermissions) rules() []Rule {
	var rules []Rule
	for p, why := range n {
		rule := Rule{Namespace: p.namespace, Why: string(why), PolicyRule: rbacv1.PolicyRule{Verbs: []string{p.verb}}}
		switch {
		case p.url != "":
			rule.NonResourceURLs = []string{p.url}
		case p.name != "":
			rule.ResourceNames = []string{p.name}
			fallthrough
		default:
			rule.APIGroups, rule.Resources = []string{p.group}, []string{p.resource}
		}
		rules = append(rules, rule)
	}
	for _, field := range []func(*Rule) *[]string{
		func(r *Rule) *[]string { return &r.Verbs },
		func(r *Rule) *[]string { return &r.ResourceNames },
		func(r *Rule) *[]string { return &r.NonResourceURLs },
		func(r *Rule) *[]string { return &r.Resources },
	} {
		rules = merge(rules, field)
	}
	slices.SortFunc(rules, func(a, b Rule) int { return slices.Compare(a.order(), b.order()) })
	return rules
}

// order returns the sort key of a rule: cluster-wide rules before those of a namespace,
// then by reason, then by content.
func (r Rule) order() []string {
	place := string(rune('a' + slices.Index(reasons, reason(r.Why))))
	return []string{r.Namespace, place, r.key(nil)}
}

// key returns the fields of a rule except one, as a key.
func (r Rule) key(without func(*Rule) *[]string) string {
	if without != nil {
		*without(&r) = nil
	}
	var parts []string
	for _, list := range [][]string{{r.Namespace, r.Why}, r.APIGroups, r.Resources, r.NonResourceURLs, r.ResourceNames, r.Verbs} {
		parts = append(parts, strings.Join(list, ","))
	}
	return strings.Join(parts, ";")
}

// merge unites the rules that differ only in one field, if that field is set.
func merge(rules []Rule, field func(*Rule) *[]string) []Rule {
	slices.SortFunc(rules, func(a, b Rule) int { return cmp.Compare(a.key(nil), b.key(nil)) })
	at := map[string]int{}
	var merged []Rule
	for _, rule := range rules {
		key := rule.key(field)
		i, found := at[key]
		if !found || len(*field(&rule)) == 0 || len(*field(&merged[i])) == 0 {
			at[key] = len(merged)
			merged = append(merged, rule)
			continue
		}
		into := field(&merged[i])
		*into = append(slices.Clone(*into), *field(&rule)...)
		slices.Sort(*into)
	}
	return merged
}
