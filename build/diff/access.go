// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/rbacrule"
)

// bound is a role that a binding grants to a subject: in a namespace, or everywhere if the namespace is empty.
type bound struct {
	role               Ref
	subject, namespace string
}

// bindings are the roles that the bindings of one side grant.
type bindings map[bound]bool

// bindingsOf returns the bindings of providers.
func bindingsOf(providers []Provider) bindings {
	all := bindings{}
	for _, p := range providers {
		for _, o := range p.Objects {
			for _, b := range boundBy(o) {
				all[b] = true
			}
		}
	}
	return all
}

// boundBy returns what a binding grants; nothing for another object. Subjects that the API server rejects are omitted.
func boundBy(o *unstructured.Unstructured) (all []bound) {
	if o == nil || !isBinding(refOf(o)) {
		return nil
	}
	role := Ref{Group: object.RBACGroup, Kind: textAt(o.Object, "roleRef", "kind"), Name: textAt(o.Object, "roleRef", "name")}
	if role.Kind == "Role" {
		role.Namespace = o.GetNamespace()
	}
	for _, subject := range mapsAt(o.Object, "subjects") {
		if missingField(subject) == "" {
			name := strings.TrimPrefix(textAt(subject, "namespace")+"/"+textAt(subject, "name"), "/")
			all = append(all, bound{role, textAt(subject, "kind") + " " + name, o.GetNamespace()})
		}
	}
	return all
}

func isBinding(ref Ref) bool {
	return ref.Group == object.RBACGroup && strings.HasSuffix(ref.Kind, "Binding")
}

// text describes the subject and the namespace.
func (b bound) text() string {
	if b.namespace == "" {
		return b.subject + " in all namespaces"
	}
	return b.subject + " in namespace " + b.namespace
}

// of returns the subjects of a role as a sentence; empty if no binding of the bundles has the role.
func (b bindings) of(role Ref) string {
	var subjects []string
	for one := range b {
		if one.role == role {
			subjects = append(subjects, one.text())
		}
	}
	if subjects == nil {
		return ""
	}
	slices.Sort(subjects)
	return "Bound to " + strings.Join(subjects, ", ") + "."
}

// access holds the bindings of both sides.
type access struct{ before, after bindings }

// changes returns the permissions that the rules of a role gained and lost, with the subjects of the role; or the subjects that
// gained and lost the role of a binding, unless another binding grants it too.
func (a access) changes(o objectPair) (changes []Change) {
	if isBinding(o.ref) {
		return a.bindingChanges(o)
	}
	before, after := rulesIn(o.a), rulesIn(o.b)
	for _, permission := range permissionsOf(notCovered(before, after)) {
		consequence := strings.TrimSpace(asSentence(permission.Sensitive) + " " + a.after.of(o.ref))
		changes = append(changes, Change{Rule: "rbac/gained", Level: Widening, Message: "allows " + permission.String(), Consequence: consequence, To: permission})
	}
	for _, permission := range permissionsOf(notCovered(after, before)) {
		changes = append(changes, Change{Rule: "rbac/lost", Level: Plain, Message: "no longer allows " + permission.String(), Consequence: a.before.of(o.ref), From: permission})
	}
	return changes
}

func (a access) bindingChanges(o objectPair) (changes []Change) {
	for _, b := range boundBy(o.b) {
		if !a.before[b] {
			changes = append(changes, Change{Rule: "rbac/bound", Level: Widening, Message: "grants " + b.role.String() + " to " + b.text()})
		}
	}
	for _, b := range boundBy(o.a) {
		if !a.after[b] {
			changes = append(changes, Change{Rule: "rbac/unbound", Level: Plain, Message: "no longer grants " + b.role.String() + " to " + b.text()})
		}
	}
	if o.b == nil {
		return changes
	}
	for _, subject := range mapsAt(o.b.Object, "subjects") {
		if missing := missingField(subject); missing != "" {
			changes = append(changes, Change{
				Rule: "rbac/malformed-subject", Level: Review, Path: "subjects", Message: "invalid subject: " + describeSubject(subject) + " without a " + missing,
				Consequence: "The API server rejects the binding.", To: subject,
			})
		}
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

// rulesIn returns the permissions of a role; none if it does not exist.
func rulesIn(o *unstructured.Unstructured) (all []rbacrule.Permission) {
	if o == nil {
		return nil
	}
	for _, rule := range rbacrule.RulesOf(o.Object) {
		all = append(all, rbacrule.Of(rule)...)
	}
	return all
}

// notCovered returns the permissions of all that no permission of some includes.
func notCovered(some, all []rbacrule.Permission) []rbacrule.Permission {
	return slices.DeleteFunc(slices.Clone(all), func(asked rbacrule.Permission) bool {
		return slices.Contains(some, asked) || slices.ContainsFunc(some, func(held rbacrule.Permission) bool { return held.Covers(asked) })
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

const everything = "*"

// permissionsOf groups permissions for display: resources with the same verbs are one permission.
func permissionsOf(all []rbacrule.Permission) []Permission {
	verbs := map[rbacrule.Permission][]string{}
	for _, allowed := range all {
		verb := allowed.Verb
		allowed.Verb = ""
		if !slices.Contains(verbs[allowed], verb) {
			verbs[allowed] = append(verbs[allowed], verb)
		}
	}
	merged := map[string]*Permission{}
	for on, may := range verbs {
		slices.SortFunc(may, func(a, b string) int { return cmp.Or(cmp.Compare(verbRank(a), verbRank(b)), cmp.Compare(a, b)) })
		description := sensitive(on.Group, on.Resource, may)
		key := strings.Join(append(may, "", on.Group, on.URL, description), "\x00")
		if on.Name != "" {
			key += "\x00" + on.Resource // names belong to one resource
		}
		if merged[key] == nil {
			merged[key] = &Permission{Verbs: may, Group: on.Group, Sensitive: description}
		}
		merged[key].add(on.Resource, on.Name, on.URL)
	}
	permissions := []Permission{}
	for _, key := range slices.Sorted(maps.Keys(merged)) {
		permissions = append(permissions, *merged[key])
	}
	slices.SortStableFunc(permissions, comparePermissions)
	return permissions
}

func (p *Permission) add(resource, name, url string) {
	for list, value := range map[*[]string]string{&p.Resources: resource, &p.Names: name, &p.URLs: url} {
		if value != "" && !slices.Contains(*list, value) {
			*list = append(*list, value)
			slices.Sort(*list)
		}
	}
}

// comparePermissions sorts sensitive permissions first.
func comparePermissions(a, b Permission) int {
	if (a.Sensitive == "") != (b.Sensitive == "") {
		return cmp.Compare(b.Sensitive, a.Sensitive)
	}
	return cmp.Or(cmp.Compare(a.Group, b.Group), slices.Compare(a.Resources, b.Resources), slices.Compare(a.URLs, b.URLs), slices.Compare(a.Verbs, b.Verbs), slices.Compare(a.Names, b.Names))
}

// verbRank orders verbs as in the Kubernetes documentation.
func verbRank(verb string) int {
	verbs := []string{everything, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	if at := slices.Index(verbs, verb); at >= 0 {
		return at
	}
	return len(verbs)
}

// String returns text such as "get, list secrets (core) named leader".
func (p Permission) String() string {
	text := joinOrWildcard(p.Verbs, "all verbs on") + " "
	if len(p.URLs) > 0 {
		return text + joinOrWildcard(p.URLs, "all paths")
	}
	text += joinOrWildcard(p.Resources, "all resources")
	switch p.Group {
	case "":
		text += " (core)"
	case everything:
		text += " (all groups)"
	default:
		text += " (" + p.Group + ")"
	}
	if len(p.Names) > 0 {
		text += " named " + strings.Join(p.Names, ", ")
	}
	return text
}

// joinOrWildcard joins texts, or returns the description of the wildcard.
func joinOrWildcard(texts []string, wildcard string) string {
	if slices.Contains(texts, everything) {
		return wildcard
	}
	return strings.Join(texts, ", ")
}

// risk is a privilege escalation risk of verbs on a resource. See Kubernetes, "Role Based
// Access Control Good Practices".
type risk struct {
	groups, resources, verbs []string
	description              string
}

var (
	writes = []string{"create", "update", "patch"}
	risks  = []risk{
		{[]string{everything}, []string{everything}, []string{everything}, "is equivalent to cluster-admin"},
		{nil, nil, []string{"escalate", "bind", "impersonate"}, "allows privilege escalation"},
		{nil, nil, []string{everything}, "allows all verbs, including future ones"},
		{nil, []string{everything}, nil, "applies to all resources, including future ones"},
		{[]string{everything}, nil, nil, "applies to all API groups, including future ones"},
		{[]string{""}, []string{"secrets"}, []string{"get", "list", "watch"}, "reads secrets"},
		{[]string{""}, []string{"serviceaccounts/token"}, []string{"create"}, "creates tokens of service accounts"},
		{[]string{""}, []string{"pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers"}, nil, "runs commands in pods"},
		{[]string{""}, []string{"nodes/proxy"}, nil, "bypasses the API server to reach the kubelet"},
		{[]string{""}, []string{"persistentvolumes"}, writes, "mounts the file systems of nodes"},
		{[]string{object.RBACGroup}, []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"}, writes, "grants permissions"},
		{[]string{object.AdmissionGroup}, nil, writes, "reads and modifies requests of other clients"},
		{[]string{"certificates.k8s.io"}, []string{"certificatesigningrequests/approval", "signers"}, nil, "issues client certificates"},
		{[]string{"", "apps", "batch"}, []string{"pods", "deployments", "daemonsets", "statefulsets", "replicasets", "jobs", "cronjobs"}, writes, "runs pods with any service account of the namespace"},
		{[]string{"security.openshift.io"}, []string{"securitycontextconstraints"}, append([]string{"use"}, writes...), "changes the privileges of pods on nodes"},
	}
)

// sensitive returns the risk of verbs on a resource; empty if there is none.
func sensitive(group, resource string, verbs []string) string {
	anyOf := func(of []string, one string) bool { return of == nil || slices.Contains(of, one) }
	for _, d := range risks {
		if resource != "" && anyOf(d.groups, group) && anyOf(d.resources, resource) && slices.ContainsFunc(verbs, func(verb string) bool { return anyOf(d.verbs, verb) }) {
			return d.description
		}
	}
	return ""
}
