// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/rbacrule"
)

// grant is a rule of a role.
type grant rbacv1.PolicyRule

// Grants are the permissions of a subject.
type Grants []grant

// Permission is a required permission for a resource. "update|patch" requires one of the verbs.
type Permission struct {
	Resource string
	Verbs    []string
}

// Need returns the permission for verbs on a resource.
func Need(resource string, verbs ...string) Permission { return Permission{resource, verbs} }

// Allow reports whether one of the rules grants a verb on a resource.
func (g Grants) Allow(group, resource, verb string) bool {
	return slices.ContainsFunc(g, func(rule grant) bool { return rbacrule.Allows(rbacv1.PolicyRule(rule), group, resource, verb) })
}

// Lacks returns the first verb of a permission that is not granted.
func (g Grants) Lacks(group string, d Permission) (verb string, lacks bool) {
	for _, verb := range d.Verbs {
		if !slices.ContainsFunc(strings.Split(verb, "|"), func(v string) bool { return g.Allow(group, d.Resource, v) }) {
			return strings.ReplaceAll(verb, "|", " or "), true
		}
	}
	return "", false
}

// Lacking returns a finding for each required permission that the provider's pods lack.
func (g Grants) Lacking(b *Bundle, group string, permissions ...Permission) (findings []Finding) {
	pods := b.OfKind(object.Deployment)
	if len(pods) == 0 {
		return nil
	}
	at := PodSpec(pods[0]).At("serviceAccountName")
	for _, d := range permissions {
		if verb, lacks := g.Lacks(group, d); lacks {
			findings = append(findings, at.Finding("no role allows the provider to %s %s in %s", verb, d.Resource, QuotedGroup(group)))
		}
	}
	return findings
}

// QuotedGroup returns the name of a group for messages.
func QuotedGroup(group string) string {
	if group == "" {
		return "the core group"
	}
	return group
}

// RulesOf returns the rules of a role; for an aggregated one, the rules of the roles that it selects in the bundle.
func (b *Bundle) RulesOf(role *Object) Grants {
	var all Grants
	for _, rule := range role.At("rules").Items() {
		all = append(all, grant{
			APIGroups: rule.At("apiGroups").Texts(), Resources: rule.At("resources").Texts(),
			Verbs: rule.At("verbs").Texts(), ResourceNames: rule.At("resourceNames").Texts(),
		})
	}
	for _, selector := range role.At("aggregationRule", "clusterRoleSelectors").Items() {
		for _, other := range b.OfKind(object.ClusterRole) {
			if other != role && Selects(selector, other.At("metadata", "labels")) && !other.At("aggregationRule").Exists() {
				all = append(all, b.RulesOf(other)...)
			}
		}
	}
	return all
}

// Selects reports whether a selector with only matchLabels matches an object with labels.
func Selects(selector, labels Value) bool {
	wanted := 0
	for name, value := range selector.At("matchLabels").Fields() {
		wanted++
		if labels.At(name).Text() != value.Text() {
			return false
		}
	}
	return wanted > 0
}

// Texts returns the elements of a list of strings.
func (v Value) Texts() (texts []string) {
	for _, item := range v.Items() {
		texts = append(texts, item.Text())
	}
	return texts
}

// grantsOfPods returns the permissions that the bundle's roles grant to the bundle's pods.
func grantsOfPods(b *Bundle) Grants {
	var all Grants
	for _, binding := range b.OfKind(object.RoleBinding, object.ClusterRoleBinding) {
		if !slices.ContainsFunc(b.Objects, func(o *Object) bool { return bindsPods(binding, o) }) {
			continue
		}
		for _, role := range b.OfKind(object.Role, object.ClusterRole) {
			ref := binding.At("roleRef")
			if role.Kind.Kind == ref.At("kind").Text() && role.Name == ref.At("name").Text() && (role.Kind == object.ClusterRole || role.Namespace == binding.Namespace) {
				all = append(all, b.RulesOf(role)...)
			}
		}
		if binding.At("roleRef", "name").Text() == "cluster-admin" {
			all = append(all, grant{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
		}
	}
	return all
}

// bindsPods reports whether a binding is for the service account of the pods that an object makes.
func bindsPods(binding, o *Object) bool {
	spec := PodSpec(o)
	if !spec.Exists() {
		return false
	}
	account := spec.At("serviceAccountName").Text()
	if account == "" {
		account = "default"
	}
	for _, subject := range binding.At("subjects").Items() {
		isAccount := subject.At("kind").Text() == object.ServiceAccount.Kind
		if isAccount && subject.At("name").Text() == account && subject.At("namespace").Text() == o.Namespace {
			return true
		}
	}
	return false
}
