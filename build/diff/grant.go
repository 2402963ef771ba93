// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/rbacrule"
)

const everything = "*"

// grant is a single permission, or all permissions of a role whose rules are unknown.
type grant struct {
	rbacrule.Permission
	// role is a role that is not part of the bundles.
	role string
}

// grants are permissions with the objects that grant them.
type grants map[grant][]origin

// origin is a role or binding that contributes to a grant.
type origin struct {
	ref      Ref
	provider string
}

func (g grants) add(other grants, origins ...origin) {
	for allowed, by := range other {
		for _, o := range append(slices.Clone(by), origins...) {
			if !slices.Contains(g[allowed], o) {
				g[allowed] = append(g[allowed], o)
			}
		}
	}
}

// without returns the grants that others do not cover.
func (g grants) without(others ...grants) grants {
	rest := grants{}
	for allowed, by := range g {
		if !slices.ContainsFunc(others, func(other grants) bool { return other.cover(allowed) }) {
			rest[allowed] = by
		}
	}
	return rest
}

// cover reports whether the grants include the requested one, directly or by a wildcard.
func (g grants) cover(asked grant) bool {
	if _, exact := g[asked]; exact {
		return true
	}
	for allowed := range g {
		if allowed.covers(asked) {
			return true
		}
	}
	return false
}

// covers reports whether a grant includes the requested one. Only all permissions on
// all resources include the permissions of an unknown role.
func (g grant) covers(asked grant) bool {
	if asked.role != "" || g.role != "" {
		return g == asked || g == allResources
	}
	return g.Covers(asked.Permission)
}

// The grants of ClusterRole cluster-admin.
var (
	allResources = grant{Permission: rbacrule.Permission{Verb: everything, Group: everything, Resource: everything}}
	allURLs      = grant{Permission: rbacrule.Permission{Verb: everything, URL: everything}}
)

// rulesOf returns the grants of the rules of a role.
func rulesOf(role map[string]any) grants {
	all := grants{}
	for _, rule := range rbacrule.RulesOf(role) {
		for _, permission := range rbacrule.Of(rule) {
			all[grant{Permission: permission}] = nil
		}
	}
	return all
}

// permissions groups grants for display: resources with the same verbs are one permission.
func (g grants) permissions() []Permission {
	verbs := map[grant][]string{}
	for allowed := range g {
		verb := allowed.Verb
		allowed.Verb = ""
		verbs[allowed] = append(verbs[allowed], verb)
	}
	merged := map[string]*Permission{}
	for on, may := range verbs {
		slices.SortFunc(may, func(a, b string) int { return cmp.Or(cmp.Compare(verbRank(a), verbRank(b)), cmp.Compare(a, b)) })
		description := sensitive(on.Group, on.Resource, may)
		key := strings.Join(append(may, "", on.Group, on.URL, on.role, description), "\x00")
		if on.Name != "" {
			key += "\x00" + on.Resource // names belong to one resource
		}
		if merged[key] == nil {
			merged[key] = &Permission{Verbs: may, Group: on.Group, Role: on.role, Sensitive: description}
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
	return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Group, b.Group), slices.Compare(a.Resources, b.Resources), slices.Compare(a.URLs, b.URLs), slices.Compare(a.Verbs, b.Verbs), slices.Compare(a.Names, b.Names))
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
	if p.Role != "" {
		return "all permissions of " + p.Role
	}
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
