// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
)

// grant is a rule of a role.
type grant struct{ groups, resources, verbs []string }

// grants are what somebody may do.
type grants []grant

// demand is what somebody has to be allowed to do with a resource. One of the verbs
// of "update|patch" is enough.
type demand struct {
	resource string
	verbs    []string
}

func (g grants) allow(group, resource, verb string) bool {
	return slices.ContainsFunc(g, func(rule grant) bool {
		return either(rule.groups, group) && either(rule.verbs, verb) &&
			(either(rule.resources, resource) || strings.Contains(resource, "/") && slices.Contains(rule.resources, "*/"+strings.SplitN(resource, "/", 2)[1]))
	})
}

func either(all []string, one string) bool {
	return slices.Contains(all, one) || slices.Contains(all, "*")
}

// lacks returns the first verb of a demand that is not granted.
func (g grants) lacks(group string, d demand) (verb string, lacks bool) {
	for _, verb := range d.verbs {
		if !slices.ContainsFunc(strings.Split(verb, "|"), func(v string) bool { return g.allow(group, d.resource, v) }) {
			return strings.ReplaceAll(verb, "|", " or "), true
		}
	}
	return "", false
}

// lacking tells what the provider's pods may not do.
func (g grants) lacking(b *Bundle, group string, demands ...demand) (findings []Finding) {
	pods := b.ofKind(deploymentKind)
	if len(pods) == 0 {
		return nil
	}
	at := podSpec(pods[0]).At("serviceAccountName")
	for _, d := range demands {
		if verb, lacks := g.lacks(group, d); lacks {
			findings = append(findings, at.finding("no role lets the provider %s %s in %s", verb, d.resource, quotedGroup(group)))
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

// rulesOf are the rules of a role; those of an aggregated one are the rules of the roles that it selects in the bundle.
func (b *Bundle) rulesOf(role *Object) grants {
	var all grants
	for _, rule := range role.At("rules").Items() {
		all = append(all, grant{rule.At("apiGroups").texts(), rule.At("resources").texts(), rule.At("verbs").texts()})
	}
	for _, selector := range role.At("aggregationRule", "clusterRoleSelectors").Items() {
		for _, other := range b.ofKind(clusterRoleKind) {
			if other != role && selects(selector, other.At("metadata", "labels")) && !other.At("aggregationRule").Exists() {
				all = append(all, b.rulesOf(other)...)
			}
		}
	}
	return all
}

// selects says whether a selector of nothing but labels takes an object with labels.
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

// texts are the elements of a list of texts.
func (v Value) texts() (texts []string) {
	for _, item := range v.Items() {
		texts = append(texts, item.Text())
	}
	return texts
}

// grantsOfPods are what the bundle's roles let the bundle's pods do.
func grantsOfPods(b *Bundle) grants {
	var all grants
	for _, binding := range b.ofKind(roleBindingKind, clusterBindingKind) {
		if !slices.ContainsFunc(b.Objects, func(o *Object) bool { return bindsPods(binding, o) }) {
			continue
		}
		for _, role := range b.ofKind(roleKind, clusterRoleKind) {
			ref := binding.At("roleRef")
			if role.Kind.Kind == ref.At("kind").Text() && role.Name == ref.At("name").Text() && (role.Kind == clusterRoleKind || role.Namespace == binding.Namespace) {
				all = append(all, b.rulesOf(role)...)
			}
		}
		if binding.At("roleRef", "name").Text() == "cluster-admin" {
			all = append(all, grant{[]string{"*"}, []string{"*"}, []string{"*"}})
		}
	}
	return all
}

// bindsPods says whether a binding is for the service account of the pods that an object makes.
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
		isAccount := subject.At("kind").Text() == serviceAccountKind.Kind
		if isAccount && subject.At("name").Text() == account && subject.At("namespace").Text() == o.Namespace {
			return true
		}
	}
	return false
}
