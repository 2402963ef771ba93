// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

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

// OnSomeName returns the permissions for at least one object of a resource: resourceNames do not limit them.
func (g Grants) OnSomeName() Grants {
	all := slices.Clone(g)
	for i := range all {
		all[i].ResourceNames = nil
	}
	return all
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
func (g Grants) Lacking(b *Bundle, group string, permissions ...Permission) (findings Findings) {
	pods := b.OfKind(object.Deployment)
	if len(pods) == 0 {
		return nil
	}
	at, cause := ServiceAccount(PodSpec(pods[0])), b.Permissions().BrokenBinding()
	for _, d := range permissions {
		if verb, lacks := g.Lacks(group, d); lacks {
			findings = append(findings, at.Finding("no role allows the provider to %s %s in %s%s", verb, d.Resource, QuotedGroup(group), cause)...)
		}
	}
	if cause != "" && len(findings) > 0 {
		return findings[:1]
	}
	return findings
}

// Permissions are the roles and bindings of a bundle.
type Permissions struct{ bundle *Bundle }

// Permissions returns the roles and bindings of the bundle.
func (b *Bundle) Permissions() Permissions { return Permissions{b} }

// BrokenBinding returns the reason why the bundle's pods have no permissions of a binding, as the end of a message: its role
// is missing, or no binding is for their service accounts. It is empty if the bindings are complete.
func (p Permissions) BrokenBinding() string {
	bindings, bound := p.bundle.OfKind(object.RoleBinding, object.ClusterRoleBinding), false
	for _, binding := range bindings {
		if !slices.ContainsFunc(p.bundle.Objects, func(o *Object) bool { return bindsPods(binding, o) }) {
			continue
		}
		bound = true
		ref := binding.At("roleRef")
		if len(p.GrantsOf(binding)) == 0 {
			return ": " + binding.String() + " refers to " + ref.At("kind").Text() + " " + ref.At("name").Text() + ", which has no rules or is not in the manifests"
		}
	}
	if len(bindings) > 0 && !bound {
		return ": no binding has the service account of the pods as its subject"
	}
	return ""
}

// QuotedGroup returns the name of a group for messages.
func QuotedGroup(group string) string {
	if group == "" {
		return "the core group"
	}
	return group
}

// RulesOf returns the rules of a role; for an aggregated one, the rules of the roles that it selects in the bundle.
func (p Permissions) RulesOf(role *Object) Grants {
	var all Grants
	for _, rule := range role.At("rules").Items() {
		all = append(all, grant{
			APIGroups: rule.At("apiGroups").Texts(), Resources: rule.At("resources").Texts(),
			Verbs: rule.At("verbs").Texts(), ResourceNames: rule.At("resourceNames").Texts(),
		})
	}
	for _, selector := range role.At("aggregationRule", "clusterRoleSelectors").Items() {
		for _, other := range p.bundle.OfKind(object.ClusterRole) {
			if other != role && Selects(selector, other.At("metadata", "labels")) && !other.At("aggregationRule").Exists() {
				all = append(all, p.RulesOf(other)...)
			}
		}
	}
	return all
}

// Selector returns a label selector as Kubernetes reads it.
func Selector(selector Value) (labels.Selector, error) {
	if !selector.Exists() {
		return labels.Nothing(), nil
	}
	data, err := selector.JSON()
	if err != nil {
		return nil, err
	}
	var written metav1.LabelSelector
	if err := json.Unmarshal(data, &written); err != nil {
		return nil, err
	}
	return metav1.LabelSelectorAsSelector(&written)
}

// Selects reports whether a label selector matches an object with labels. An invalid selector matches nothing.
func Selects(selector, objectLabels Value) bool {
	parsed, err := Selector(selector)
	return err == nil && parsed.Matches(labels.Set(objectLabels.StringMap()))
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
	return b.Permissions().grantsBy(b.OfKind(object.RoleBinding, object.ClusterRoleBinding))
}

// ClusterWideGrants returns the permissions of the bundle's pods in all namespaces.
func (p Permissions) ClusterWideGrants() Grants {
	return p.grantsBy(p.bundle.OfKind(object.ClusterRoleBinding))
}

func (p Permissions) grantsBy(bindings []*Object) (all Grants) {
	for _, binding := range bindings {
		if slices.ContainsFunc(p.bundle.Objects, func(o *Object) bool { return bindsPods(binding, o) }) {
			all = append(all, p.GrantsOf(binding)...)
		}
	}
	return all
}

// GrantsOf returns the permissions of the role of a binding, as far as the bundle has the role.
func (p Permissions) GrantsOf(binding *Object) (all Grants) {
	ref := binding.At("roleRef")
	for _, role := range p.bundle.OfKind(object.Role, object.ClusterRole) {
		if role.Kind.Kind == ref.At("kind").Text() && role.Name == ref.At("name").Text() && (role.Kind == object.ClusterRole || role.Namespace == binding.Namespace) {
			all = append(all, p.RulesOf(role)...)
		}
	}
	if ref.At("name").Text() == "cluster-admin" {
		all = append(all, grant{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	}
	return all
}

// bindsPods reports whether a binding is for the service account of the pods that an object makes: by its name, its
// user name or one of its groups.
func bindsPods(binding, o *Object) bool {
	spec := PodSpec(o)
	if !spec.Exists() {
		return false
	}
	account := cmp.Or(ServiceAccount(spec).Text(), "default")
	for _, subject := range binding.At("subjects").Items() {
		name := subject.At("name").Text()
		switch subject.At("kind").Text() {
		case rbacv1.ServiceAccountKind:
			if name == account && cmp.Or(subject.At("namespace").Text(), binding.Namespace) == o.Namespace {
				return true
			}
		case rbacv1.UserKind:
			if name == "system:serviceaccount:"+o.Namespace+":"+account {
				return true
			}
		case rbacv1.GroupKind:
			if slices.Contains([]string{"system:serviceaccounts", "system:serviceaccounts:" + o.Namespace, "system:authenticated"}, name) {
				return true
			}
		}
	}
	return false
}
