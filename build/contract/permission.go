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

// grants are the permissions of a subject.
type grants []grant

// demand is a required permission for a resource. "update|patch" requires one of the verbs.
type permission struct {
	resource string
	verbs    []string
}

func (g grants) allow(group, resource, verb string) bool {
	return slices.ContainsFunc(g, func(rule grant) bool { return rbacrule.Allows(rbacv1.PolicyRule(rule), group, resource, verb) })
}

// lacks returns the first verb of a permission that is not granted.
func (g grants) lacks(group string, d permission) (verb string, lacks bool) {
	for _, verb := range d.verbs {
		if !slices.ContainsFunc(strings.Split(verb, "|"), func(v string) bool { return g.allow(group, d.resource, v) }) {
			return strings.ReplaceAll(verb, "|", " or "), true
		}
	}
	return "", false
}

// lacking returns a finding for each required permission that the provider's pods lack.
func (g grants) lacking(b *Bundle, group string, permissions ...permission) (findings []Finding) {
	pods := b.ofKind(object.Deployment)
	if len(pods) == 0 {
		return nil
	}
	at := podSpec(pods[0]).At("serviceAccountName")
	for _, d := range permissions {
		if verb, lacks := g.lacks(group, d); lacks {
			findings = append(findings, at.finding("no role allows the provider to %s %s in %s", verb, d.resource, quotedGroup(group)))
		}
	}
	return findings
}

func quotedGroup(group string) string {
	if group == "" {
		return "the core group"
	}
	return group
}

// rulesOf returns the rules of a role; for an aggregated one, the rules of the roles that it selects in the bundle.
func (b *Bundle) rulesOf(role *Object) grants {
	var all grants
	for _, rule := range role.At("rules").Items() {
		all = append(all, grant{
			APIGroups: rule.At("apiGroups").texts(), Resources: rule.At("resources").texts(),
			Verbs: rule.At("verbs").texts(), ResourceNames: rule.At("resourceNames").texts(),
		})
	}
	for _, selector := range role.At("aggregationRule", "clusterRoleSelectors").Items() {
		for _, other := range b.ofKind(object.ClusterRole) {
			if other != role && selects(selector, other.At("metadata", "labels")) && !other.At("aggregationRule").Exists() {
				all = append(all, b.rulesOf(other)...)
			}
		}
	}
	return all
}

// selects reports whether a selector with only matchLabels matches an object with labels.
func selects(selector, labels Value) bool {
	wanted := 0
	for name, value := range selector.At("matchLabels").Fields() {
		wanted++
		if labels.At(name).Text() != value.Text() {
			return false
		}
	}
	return wanted > 0
}

// texts returns the elements of a list of strings.
func (v Value) texts() (texts []string) {
	for _, item := range v.Items() {
		texts = append(texts, item.Text())
	}
	return texts
}

// grantsOfPods returns the permissions that the bundle's roles grant to the bundle's pods.
func grantsOfPods(b *Bundle) grants {
	var all grants
	for _, binding := range b.ofKind(object.RoleBinding, object.ClusterRoleBinding) {
		if !slices.ContainsFunc(b.Objects, func(o *Object) bool { return bindsPods(binding, o) }) {
			continue
		}
		for _, role := range b.ofKind(object.Role, object.ClusterRole) {
			ref := binding.At("roleRef")
			if role.Kind.Kind == ref.At("kind").Text() && role.Name == ref.At("name").Text() && (role.Kind == object.ClusterRole || role.Namespace == binding.Namespace) {
				all = append(all, b.rulesOf(role)...)
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
	spec := podSpec(o)
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
