// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// holder is who may do something, and where: everywhere if the namespace is empty.
type holder struct{ subject, namespace string }

// accessReport is what differs in what subjects may do.
type accessReport struct {
	changes []Access
	// gained is what any subject gained, with the objects that make it so.
	gained grants
}

// accessChanges compares what each subject may do in the end. A permission that
// moved from one role to another of the same subject is no difference.
func accessChanges(a, b []Provider) accessReport {
	before, after := accessOf(a), accessOf(b)
	report := accessReport{changes: []Access{}, gained: grants{}}
	holders := slices.SortedFunc(maps.Keys(union(before, after)), func(x, y holder) int {
		return cmp.Or(cmp.Compare(x.subject, y.subject), cmp.Compare(x.namespace, y.namespace))
	})
	for _, h := range holders {
		gained, lost := newlyIn(after, before, h), newlyIn(before, after, h)
		if len(gained)+len(lost) == 0 {
			continue
		}
		report.gained.add(gained)
		report.changes = append(report.changes, Access{
			Subject: h.subject, Namespace: h.namespace, Providers: providersOf(gained, lost),
			Gained: gained.permissions(), Lost: lost.permissions(),
		})
	}
	return report
}

// newlyIn is what a holder may do in one and not in the other. What it may do everywhere
// is not told again of a namespace.
func newlyIn(one, other map[holder]grants, h holder) grants {
	everywhere := holder{subject: h.subject}
	covered := []grants{other[h], other[everywhere]}
	if h != everywhere {
		covered = append(covered, one[everywhere])
	}
	return one[h].without(covered...)
}

func providersOf(all ...grants) []string {
	names := []string{}
	for _, g := range all {
		for _, origins := range g {
			for _, o := range origins {
				names = append(names, o.provider)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// authorization are the roles and bindings of a side.
type authorization struct {
	roles    map[Ref]role
	bindings []role // only with object and origin
	bound    map[Ref]bool
}

type role struct {
	object *unstructured.Unstructured
	origin origin
	rules  grants
}

// accessOf is what everybody may do.
func accessOf(providers []Provider) map[holder]grants {
	side := authorization{roles: map[Ref]role{}, bound: map[Ref]bool{}}
	for _, p := range providers {
		for _, o := range p.Objects {
			side.take(o, origin{refOf(o), p.Name})
		}
	}
	access := map[holder]grants{}
	for _, binding := range side.bindings {
		side.bind(access, binding)
	}
	side.unbound(access)
	return access
}

func (r *authorization) take(o *unstructured.Unstructured, from origin) {
	switch {
	case from.ref.Group != rbacGroup:
	case strings.HasSuffix(from.ref.Kind, "RoleBinding"):
		r.bindings = append(r.bindings, role{object: o, origin: from})
	case strings.HasSuffix(from.ref.Kind, "Role"):
		rules := grants{}
		rules.add(rulesOf(o.Object), from)
		rules.add(r.roles[from.ref].rules) // another provider's of the same name
		r.roles[from.ref] = role{o, from, rules}
	}
}

// bind gives the subjects of a binding what its role allows.
func (r *authorization) bind(access map[holder]grants, binding role) {
	ref := Ref{Group: rbacGroup, Kind: textAt(binding.object.Object, "roleRef", "kind"), Name: textAt(binding.object.Object, "roleRef", "name")}
	if ref.Kind == "Role" {
		ref.Namespace = binding.object.GetNamespace()
	}
	r.bound[ref] = true
	for _, subject := range mapsAt(binding.object.Object, "subjects") {
		give(access, holder{subjectName(subject, binding.object.GetNamespace()), binding.object.GetNamespace()}, r.allowed(ref), binding.origin)
	}
}

func give(access map[holder]grants, h holder, allowed grants, origins ...origin) {
	if access[h] == nil {
		access[h] = grants{}
	}
	access[h].add(allowed, origins...)
}

func subjectName(subject map[string]any, namespace string) string {
	name := textAt(subject, "name")
	if textAt(subject, "kind") == "ServiceAccount" {
		name = cmp.Or(textAt(subject, "namespace"), namespace) + "/" + name
	}
	return textAt(subject, "kind") + " " + name
}

// allowed is what a role allows; of an aggregated one, what the roles allow that it selects.
func (r *authorization) allowed(ref Ref) grants {
	found, known := r.roles[ref]
	switch {
	case known:
		all := grants{}
		all.add(found.rules)
		for _, selected := range r.aggregated(found) {
			all.add(r.roles[selected].rules, found.origin)
		}
		return all
	case ref.Kind == "ClusterRole" && ref.Name == "cluster-admin":
		return grants{{verb: everything, group: everything, resource: everything}: nil, {verb: everything, url: everything}: nil}
	}
	return grants{{role: ref.String()}: nil}
}

// aggregated are the roles whose labels a role selects.
func (r *authorization) aggregated(aggregating role) (selected []Ref) {
	for _, selector := range mapsAt(mapAt(aggregating.object.Object, "aggregationRule"), "clusterRoleSelectors") {
		for ref, candidate := range r.roles {
			if ref != aggregating.origin.ref && ref.Kind == "ClusterRole" && selects(selector, candidate.object.GetLabels()) {
				selected = append(selected, ref)
			}
		}
	}
	return selected
}

func selects(selector map[string]any, labels map[string]string) bool {
	wanted := mapAt(selector, "matchLabels")
	for name, value := range wanted {
		if text, isText := value.(string); !isText || labels[name] != text {
			return false
		}
	}
	return len(wanted) > 0
}

// unbound gives what roles allow that nobody here is bound to, to those who are
// bound to them elsewhere; and what roles allow with labels by which no role here
// aggregates, to those whose roles do.
func (r *authorization) unbound(access map[holder]grants) {
	selected, here := map[Ref]bool{}, map[string]bool{}
	for _, aggregating := range r.roles {
		for _, ref := range r.aggregated(aggregating) {
			selected[ref] = true
		}
		for _, selector := range mapsAt(mapAt(aggregating.object.Object, "aggregationRule"), "clusterRoleSelectors") {
			for label := range mapAt(selector, "matchLabels") {
				here[label] = true
			}
		}
	}
	for ref, found := range r.roles {
		labels := aggregationLabels(found.object)
		for _, label := range labels {
			if !here[label] {
				give(access, holder{subject: "whoever has a role that aggregates " + label}, found.rules)
			}
		}
		if len(labels) == 0 && !r.bound[ref] && !selected[ref] {
			give(access, holder{"whoever is bound to " + ref.String(), ref.Namespace}, r.allowed(ref))
		}
	}
}

// aggregationLabels are the labels by which roles aggregate a role.
func aggregationLabels(o *unstructured.Unstructured) (labels []string) {
	for label, value := range o.GetLabels() {
		if strings.Contains(label, "/aggregate-to-") && value == "true" {
			labels = append(labels, label)
		}
	}
	return labels
}

// roleChanges tells what the rules of a role allow, and did not, and the other way
// round; and of a binding, whether somebody gained something by it.
func (r accessReport) roleChanges(o objectPair) (changes []Change) {
	if strings.HasSuffix(o.ref.Kind, "Binding") {
		return r.bindingChanges(o)
	}
	before, after := rulesIn(o.a), rulesIn(o.b)
	gained, lost := after.without(before), before.without(after)
	for _, permission := range gained.permissions() {
		changes = append(changes, Change{Rule: "rbac/gained", Level: r.levelOf(permission, o.ref), Says: "allows " + permission.String(), Means: sentence(permission.Sensitive), To: permission})
	}
	for _, permission := range lost.permissions() {
		changes = append(changes, Change{Rule: "rbac/lost", Level: Plain, Says: "no longer allows " + permission.String(), From: permission})
	}
	return changes
}

// sentence makes a sentence of what a permission is good for.
func sentence(why string) string {
	if why == "" {
		return ""
	}
	return strings.ToUpper(why[:1]) + why[1:] + "."
}

func rulesIn(o *unstructured.Unstructured) grants {
	if o == nil {
		return grants{}
	}
	return rulesOf(o.Object)
}

// levelOf is Widening if somebody gained by a role what the permission is about. Else
// whoever has the role had it before, by another role.
func (r accessReport) levelOf(p Permission, role Ref) Level {
	for gained, origins := range r.gained {
		if p.includes(gained) && slices.ContainsFunc(origins, func(from origin) bool { return from.ref == role }) {
			return Widening
		}
	}
	return Plain
}

func (p Permission) includes(g grant) bool {
	return g.group == p.Group && g.role == p.Role && slices.Contains(p.Verbs, g.verb) &&
		(slices.Contains(p.Resources, g.resource) && slices.Contains(orEmpty(p.Names), g.name) || slices.Contains(p.URLs, g.url))
}

func (r accessReport) bindingChanges(o objectPair) []Change {
	by := grants{}
	for allowed, origins := range r.gained {
		if slices.ContainsFunc(origins, func(from origin) bool { return from.ref == o.ref }) {
			by[allowed] = nil
		}
	}
	if o.b == nil || len(by) == 0 {
		return nil
	}
	ref := mapAt(o.b.Object, "roleRef")
	return []Change{{
		Rule: "rbac/bound", Level: Widening, Says: "gives its subjects permissions of " + textAt(ref, "kind") + " " + textAt(ref, "name") + " that they had not",
	}}
}
