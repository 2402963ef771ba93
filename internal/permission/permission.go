// SPDX-License-Identifier: Apache-2.0

package permission

import (
	"cmp"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/internal/rbacrule"
)

// permission is a permission in one namespace, or in all if the namespace is empty.
type permission struct {
	namespace string
	rbacrule.Permission
}

// permissionOn returns the permission on all objects of a resource, without a verb.
func permissionOn(namespace string, resource schema.GroupResource) permission {
	return permission{namespace, rbacrule.Permission{Group: resource.Group, Resource: resource.Resource}}
}

// permissionsOf splits a rule into permissions. In a namespace, non-resource URLs have
// no effect: the API server rejects them in a Role, and the authorizer evaluates only
// ClusterRoleBindings for them.
func permissionsOf(namespace string, rule rbacv1.PolicyRule) (all []permission) {
	for _, single := range rbacrule.Of(rule) {
		if namespace == "" || single.URL == "" {
			all = append(all, permission{namespace, single})
		}
	}
	return all
}

// covers reports whether p includes another permission. Most permissions of an installer differ in the verb, so this is compared first: Covers allocates
// two rules.
func (p permission) covers(other permission) bool {
	return (p.namespace == "" || p.namespace == other.namespace) && (p.Verb == other.Verb || p.Verb == rbacv1.VerbAll) && p.Covers(other.Permission)
}

// covered reports whether one of the held permissions covers another one.
func covered(held []permission, wanted permission) bool {
	return slices.ContainsFunc(held, func(p permission) bool { return p.covers(wanted) })
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
		found := covered(held, wanted)
		for other := range n {
			if found = found || other != wanted && other.covers(wanted); found {
				break
			}
		}
		if !found {
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

// String describes a rule that is missing, as the API server describes a forbidden request.
func (r Rule) String() string {
	var out strings.Builder
	out.WriteString("cannot " + strings.Join(r.Verbs, ", "))
	if len(r.NonResourceURLs) > 0 {
		out.WriteString(" path " + quoted(r.NonResourceURLs))
	}
	if len(r.Resources) > 0 {
		out.WriteString(" resource " + quoted(r.Resources) + " in API group " + quoted(r.APIGroups))
	}
	if len(r.ResourceNames) > 0 {
		out.WriteString(" named " + quoted(r.ResourceNames))
	}
	if r.Namespace != "" {
		out.WriteString(" in namespace " + quoted([]string{r.Namespace}))
	}
	return out.String() + " (" + r.Why + ")"
}

func quoted(texts []string) string { return `"` + strings.Join(texts, `", "`) + `"` }

// Requests returns the requests that the rule allows, for access reviews.
func (r Rule) Requests() []authorizationv1.SelfSubjectAccessReviewSpec {
	var out []authorizationv1.SelfSubjectAccessReviewSpec
	for _, p := range permissionsOf(r.Namespace, r.PolicyRule) {
		if p.URL != "" {
			out = append(out, authorizationv1.SelfSubjectAccessReviewSpec{
				NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: p.URL, Verb: p.Verb},
			})
			continue
		}
		resource, subresource, _ := strings.Cut(p.Resource, "/")
		out = append(out, authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: p.namespace, Verb: p.Verb, Group: p.Group, Resource: resource, Subresource: subresource, Name: p.Name,
		}})
	}
	return out
}

// rules combines permissions: first verbs, then names, then resources, if all other
// fields are equal. The order is deterministic.
func (n requiredPermissions) rules() []Rule {
	var rules []Rule
	for p, why := range n {
		rules = append(rules, Rule{p.namespace, p.Rule(), string(why)})
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

// order returns the sort key of a rule: cluster-wide rules before namespaced ones, then
// by reason, then by content.
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
