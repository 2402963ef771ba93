// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capi-installer/capi-installer/internal/object"
)

// scopedSubject is a subject in a namespace, or in all namespaces if the namespace is empty.
type scopedSubject struct{ subject, namespace string }

// accessReport holds the changed permissions of all subjects.
type accessReport struct {
	changes []Access
	// gained are the permissions that any subject gained, with the objects that grant them.
	gained grants
}

// accessChanges compares the effective permissions of each subject. A permission that
// moved to another role of the same subject is not a change.
func accessChanges(a, b []Provider) accessReport {
	sideA, sideB := authorizationOf(a), authorizationOf(b)
	unbound := union(sideA.unbound(), sideB.unbound()) // a role that gains or loses its last binding is compared with itself
	before, after := sideA.access(unbound), sideB.access(unbound)
	report := accessReport{changes: []Access{}, gained: grants{}}
	subjects := slices.SortedFunc(maps.Keys(union(before, after)), func(x, y scopedSubject) int {
		return cmp.Or(cmp.Compare(x.subject, y.subject), cmp.Compare(x.namespace, y.namespace))
	})
	for _, h := range subjects {
		gained, lost := onlyIn(after, before, h), onlyIn(before, after, h)
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

// onlyIn returns the permissions of a subject in one and not in other. Permissions that
// it has in all namespaces are not repeated for a single namespace.
func onlyIn(one, other map[scopedSubject]grants, h scopedSubject) grants {
	everywhere := scopedSubject{subject: h.subject}
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

// authorization holds the roles and bindings of one side.
type authorization struct {
	roles    map[Ref]role
	bindings []role // without rules
	bound    map[Ref]bool
}

type role struct {
	object *unstructured.Unstructured
	origin origin
	rules  grants
}

// authorizationOf returns the roles and bindings of providers.
func authorizationOf(providers []Provider) *authorization {
	side := &authorization{roles: map[Ref]role{}, bound: map[Ref]bool{}}
	for _, p := range providers {
		for _, o := range p.Objects {
			side.add(o, origin{refOf(o), p.Name})
		}
	}
	for _, binding := range side.bindings {
		side.bound[roleOf(binding.object)] = true
	}
	return side
}

// access returns the effective permissions of all subjects, and of the subjects that objects outside the bundles can bind to
// one of the unbound roles.
func (r *authorization) access(unbound map[Ref]bool) map[scopedSubject]grants {
	access := map[scopedSubject]grants{}
	for _, binding := range r.bindings {
		r.bind(access, binding)
	}
	r.addUnbound(access, unbound)
	return access
}

// roleOf returns the role of a binding.
func roleOf(binding *unstructured.Unstructured) Ref {
	ref := Ref{Group: object.RBACGroup, Kind: textAt(binding.Object, "roleRef", "kind"), Name: textAt(binding.Object, "roleRef", "name")}
	if ref.Kind == "Role" {
		ref.Namespace = binding.GetNamespace()
	}
	return ref
}

func (r *authorization) add(o *unstructured.Unstructured, from origin) {
	switch {
	case from.ref.Group != object.RBACGroup:
	case strings.HasSuffix(from.ref.Kind, "RoleBinding"):
		r.bindings = append(r.bindings, role{object: o, origin: from})
	case strings.HasSuffix(from.ref.Kind, "Role"):
		rules := grants{}
		rules.add(rulesOf(o.Object), from)
		rules.add(r.roles[from.ref].rules) // a role of the same name in another provider
		r.roles[from.ref] = role{o, from, rules}
	}
}

// bind adds the permissions of a binding to its subjects.
func (r *authorization) bind(access map[scopedSubject]grants, binding role) {
	allowed := r.allowed(roleOf(binding.object))
	if binding.object.GetNamespace() != "" { // the authorizer evaluates only ClusterRoleBindings for URLs
		maps.DeleteFunc(allowed, func(g grant, _ []origin) bool { return g.URL != "" })
	}
	for _, subject := range mapsAt(binding.object.Object, "subjects") {
		if missingField(subject) != "" {
			continue // reported by bindingChanges
		}
		grantTo(access, scopedSubject{subjectName(subject, binding.object.GetNamespace()), binding.object.GetNamespace()}, allowed, binding.origin)
	}
}

func grantTo(access map[scopedSubject]grants, h scopedSubject, allowed grants, origins ...origin) {
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

// allowed returns the permissions of a role, including the permissions of the roles that it aggregates.
func (r *authorization) allowed(ref Ref) grants {
	found, known := r.roles[ref]
	switch {
	case known:
		all := grants{}
		all.add(found.rules)
		for _, selected := range r.aggregated(found) {
			all.add(r.roles[selected].rules, found.origin)
		}
		if len(selectorsOf(found)) > 0 {
			all.add(grants{{role: "the roles of other providers that " + ref.String() + " aggregates"}: nil}, found.origin)
		}
		return all
	case ref.Kind == "ClusterRole" && ref.Name == "cluster-admin":
		return grants{allResources: nil, allURLs: nil}
	}
	return grants{{role: ref.String()}: nil}
}

// aggregated returns the roles that a role selects by their labels.
func (r *authorization) aggregated(aggregating role) (selected []Ref) {
	for _, selector := range selectorsOf(aggregating) {
		for ref, candidate := range r.roles {
			if ref != aggregating.origin.ref && ref.Kind == "ClusterRole" && selects(selector, candidate.object.GetLabels()) {
				selected = append(selected, ref)
			}
		}
	}
	return selected
}

// selectorsOf returns the selectors of the roles that a role aggregates.
func selectorsOf(aggregating role) []map[string]any {
	return mapsAt(mapAt(aggregating.object.Object, "aggregationRule"), "clusterRoleSelectors")
}

// selects reports whether a label selector matches labels, as Kubernetes decides. An invalid selector matches nothing.
func selects(selector map[string]any, of map[string]string) bool {
	var written metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(selector, &written); err != nil {
		return false
	}
	parsed, err := metav1.LabelSelectorAsSelector(&written)
	return err == nil && parsed.Matches(labels.Set(of))
}

// unbound returns the roles that only objects outside the bundles may bind: roles without a binding in the bundles that no
// other role selects.
func (r *authorization) unbound() map[Ref]bool {
	selected := map[Ref]bool{}
	for _, aggregating := range r.roles {
		for _, ref := range r.aggregated(aggregating) {
			selected[ref] = true
		}
	}
	unbound := map[Ref]bool{}
	for ref, found := range r.roles {
		if len(aggregationLabels(found.object)) == 0 && !r.bound[ref] && !selected[ref] {
			unbound[ref] = true
		}
	}
	return unbound
}

// addUnbound adds the permissions of roles that objects outside the bundles may bind or aggregate: unbound roles, and roles
// with an aggregation label that no role in the bundles selects.
func (r *authorization) addUnbound(access map[scopedSubject]grants, unbound map[Ref]bool) {
	selectedLabels := map[string]bool{}
	for _, aggregating := range r.roles {
		for _, selector := range selectorsOf(aggregating) {
			for label := range mapAt(selector, "matchLabels") {
				selectedLabels[label] = true
			}
		}
	}
	for ref, found := range r.roles {
		for _, label := range aggregationLabels(found.object) {
			if !selectedLabels[label] {
				grantTo(access, scopedSubject{subject: "subjects of roles that aggregate " + label}, found.rules)
			}
		}
		if unbound[ref] {
			grantTo(access, scopedSubject{"subjects bound to " + ref.String(), ref.Namespace}, r.allowed(ref))
		}
	}
}

// aggregationLabels returns the labels of a role that make other roles aggregate it.
func aggregationLabels(o *unstructured.Unstructured) (labels []string) {
	for label, value := range o.GetLabels() {
		if strings.Contains(label, "/aggregate-to-") && value == "true" {
			labels = append(labels, label)
		}
	}
	return labels
}

// roleChanges returns the permissions that the rules of a role gained and lost. For a
// binding, it returns whether its subjects gained permissions.
func (r accessReport) roleChanges(o objectPair) (changes []Change) {
	if strings.HasSuffix(o.ref.Kind, "Binding") {
		return r.bindingChanges(o)
	}
	before, after := rulesIn(o.a), rulesIn(o.b)
	gained, lost := after.without(before), before.without(after)
	for _, permission := range gained.permissions() {
		changes = append(changes, Change{Rule: "rbac/gained", Level: r.levelOf(permission, o.ref), Message: "allows " + permission.String(), Consequence: asSentence(permission.Sensitive), To: permission})
	}
	for _, permission := range lost.permissions() {
		changes = append(changes, Change{Rule: "rbac/lost", Level: Plain, Message: "no longer allows " + permission.String(), From: permission})
	}
	return changes
}

// asSentence capitalizes a text and adds a full stop.
func asSentence(why string) string {
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

// levelOf returns Widening if a subject gained the permission through the role. Otherwise
// all subjects of the role already had it through another role.
func (r accessReport) levelOf(p Permission, role Ref) Level {
	for gained, origins := range r.gained {
		if p.includes(gained) && slices.ContainsFunc(origins, func(from origin) bool { return from.ref == role }) {
			return Widening
		}
	}
	return Plain
}

func (p Permission) includes(g grant) bool {
	return g.Group == p.Group && g.role == p.Role && slices.Contains(p.Verbs, g.Verb) &&
		(slices.Contains(p.Resources, g.Resource) && (slices.Contains(p.Names, g.Name) || len(p.Names) == 0 && g.Name == "") || slices.Contains(p.URLs, g.URL))
}

func (r accessReport) bindingChanges(o objectPair) []Change {
	granted := grants{}
	for allowed, origins := range r.gained {
		if slices.ContainsFunc(origins, func(from origin) bool { return from.ref == o.ref }) {
			granted[allowed] = nil
		}
	}
	if o.b == nil {
		return nil
	}
	var changes []Change
	for _, subject := range mapsAt(o.b.Object, "subjects") {
		if missing := missingField(subject); missing != "" {
			changes = append(changes, Change{
				Rule: "rbac/malformed-subject", Level: Review, Path: "subjects", Message: "invalid subject: " + describeSubject(subject) + " without a " + missing,
				Consequence: "The API server rejects the binding.", To: subject,
			})
		}
	}
	if len(granted) == 0 {
		return changes
	}
	ref := mapAt(o.b.Object, "roleRef")
	return append(changes, Change{
		Rule: "rbac/bound", Level: Widening, Message: "grants its subjects new permissions of " + textAt(ref, "kind") + " " + textAt(ref, "name"),
	})
}

// missingField returns the first required field that a subject of a binding lacks.
func missingField(subject map[string]any) string {
	required := []string{"name", "kind"}
	if textAt(subject, "kind") == "ServiceAccount" {
		required = append(required, "namespace")
	}
	for _, field := range required {
		if textAt(subject, field) == "" {
			return field
		}
	}
	return ""
}

func describeSubject(subject map[string]any) string {
	return strings.TrimSpace(cmp.Or(textAt(subject, "kind"), "subject") + " " + textAt(subject, "name"))
}
