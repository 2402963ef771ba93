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
