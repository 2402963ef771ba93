// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/rbac"
)

const (
	rbacGroup  = "rbac.authorization.k8s.io"
	everything = "*"
)

// grant is the least that a rule allows: a verb on a resource, a path, or all that a role
// allows whose rules are not known.
type grant struct {
	verb, group, resource string
	// name is that of the only object; empty is all.
	name string
	// url is a path that is no resource.
	url string
	// role is a role that is not among the objects.
	role string
}

// grants are what is allowed, and by which objects.
type grants map[grant][]origin

// origin is an object that takes part in allowing something.
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

// without are the grants that others do not cover.
func (g grants) without(others ...grants) grants {
	rest := grants{}
	for allowed, by := range g {
		if !slices.ContainsFunc(others, func(other grants) bool { return other.cover(allowed) }) {
			rest[allowed] = by
		}
	}
	return rest
}

// cover says whether what is asked for is allowed, by a wildcard perhaps.
func (g grants) cover(asked grant) bool {
	if _, exactly := g[asked]; exactly {
		return true
	}
	for allowed := range g {
		if allowed.covers(asked) {
			return true
		}
	}
	return false
}

// covers is how the API server matches a rule: see k8s.io/kubernetes/pkg/apis/rbac/v1.
func (g grant) covers(asked grant) bool {
	all := grant{verb: everything, group: everything, resource: everything}
	switch {
	case asked.role != "" || g.role != "":
		return g == asked || g == all
	case g.verb != everything && g.verb != asked.verb:
		return false
	case asked.url != "" || g.url != "":
		return rbac.CoversURL(g.url, asked.url)
	case g.group != everything && g.group != asked.group:
		return false
	case g.name != "" && g.name != asked.name:
		return false
	}
	return rbac.CoversResource(g.resource, asked.resource)
}

// rulesOf are the grants of the rules of a role.
func rulesOf(role map[string]any) grants {
	all := grants{}
	for _, rule := range mapsAt(role, "rules") {
		for _, verb := range textsAt(rule, "verbs") {
			for _, url := range textsAt(rule, "nonResourceURLs") {
				all[grant{verb: verb, url: url}] = nil
			}
			for _, group := range textsAt(rule, "apiGroups") {
				for _, resource := range textsAt(rule, "resources") {
					for _, name := range orEmpty(textsAt(rule, "resourceNames")) {
						all[grant{verb: verb, group: group, resource: resource, name: name}] = nil
					}
				}
			}
		}
	}
	return all
}

func orEmpty(names []string) []string {
	if len(names) == 0 {
		return []string{""}
	}
	return names
}

// permissions are grants for people: resources with the same verbs are together.
func (g grants) permissions() []Permission {
	type target struct{ group, resource, name, url, role string }
	verbs := map[target][]string{}
	for allowed := range g {
		on := target{allowed.group, allowed.resource, allowed.name, allowed.url, allowed.role}
		verbs[on] = append(verbs[on], allowed.verb)
	}
	merged := map[string]*Permission{}
	for on, may := range verbs {
		slices.SortFunc(may, func(a, b string) int { return cmp.Or(cmp.Compare(verbRank(a), verbRank(b)), cmp.Compare(a, b)) })
		danger := sensitive(on.group, on.resource, may)
		key := strings.Join(append(may, "", on.group, on.url, on.role, danger), "\x00")
		if on.name != "" {
			key += "\x00" + on.resource // its objects are of this resource
		}
		if merged[key] == nil {
			merged[key] = &Permission{Verbs: may, Group: on.group, Role: on.role, Sensitive: danger}
		}
		merged[key].put(on.resource, on.name, on.url)
	}
	permissions := []Permission{}
	for _, key := range slices.Sorted(maps.Keys(merged)) {
		permissions = append(permissions, *merged[key])
	}
	slices.SortStableFunc(permissions, comparePermissions)
	return permissions
}

func (p *Permission) put(resource, name, url string) {
	for list, value := range map[*[]string]string{&p.Resources: resource, &p.Names: name, &p.URLs: url} {
		if value != "" && !slices.Contains(*list, value) {
			*list = append(*list, value)
			slices.Sort(*list)
		}
	}
}

// comparePermissions puts what is sensitive first.
func comparePermissions(a, b Permission) int {
	if (a.Sensitive == "") != (b.Sensitive == "") {
		return cmp.Compare(b.Sensitive, a.Sensitive)
	}
	return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Group, b.Group), slices.Compare(a.Resources, b.Resources), slices.Compare(a.URLs, b.URLs), slices.Compare(a.Verbs, b.Verbs), slices.Compare(a.Names, b.Names))
}

// verbRank orders verbs as people do.
func verbRank(verb string) int {
	verbs := []string{everything, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	if at := slices.Index(verbs, verb); at >= 0 {
		return at
	}
	return len(verbs)
}

// String is as in "get, list secrets (core) named leader".
func (p Permission) String() string {
	if p.Role != "" {
		return "all that " + p.Role + " allows"
	}
	text := inWords(p.Verbs, "all verbs on") + " "
	if len(p.URLs) > 0 {
		return text + inWords(p.URLs, "all paths")
	}
	text += inWords(p.Resources, "all resources")
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

// inWords joins texts; the wildcard is told in words.
func inWords(texts []string, wildcard string) string {
	if slices.Contains(texts, everything) {
		return wildcard
	}
	return strings.Join(texts, ", ")
}

// danger is what somebody could make of verbs on a resource. See Kubernetes, "Role Based
// Access Control Good Practices", privilege escalation risks.
type danger struct {
	groups, resources, verbs []string
	why                      string
}

var (
	writes  = []string{"create", "update", "patch"}
	dangers = []danger{
		{[]string{everything}, []string{everything}, []string{everything}, "is cluster-admin by another name"},
		{nil, nil, []string{"escalate", "bind", "impersonate"}, "can make more of its permissions than it was given"},
		{nil, nil, []string{everything}, "allows every verb, those to come too"},
		{nil, []string{everything}, nil, "holds for every resource, those to come too"},
		{[]string{everything}, nil, nil, "holds in every group, those to come too"},
		{[]string{""}, []string{"secrets"}, []string{"get", "list", "watch"}, "reads secrets"},
		{[]string{""}, []string{"serviceaccounts/token"}, []string{"create"}, "makes tokens of service accounts"},
		{[]string{""}, []string{"pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers"}, nil, "gets into pods"},
		{[]string{""}, []string{"nodes/proxy"}, nil, "gets past the API server to the kubelet"},
		{[]string{""}, []string{"persistentvolumes"}, writes, "mounts the disks of nodes"},
		{[]string{rbacGroup}, []string{"roles", "clusterroles", "rolebindings", "clusterrolebindings"}, writes, "grants permissions"},
		{[]string{"admissionregistration.k8s.io"}, nil, writes, "sees and changes what others send to the API server"},
		{[]string{"certificates.k8s.io"}, []string{"certificatesigningrequests/approval", "signers"}, nil, "makes client certificates"},
		{[]string{"", "apps", "batch"}, []string{"pods", "deployments", "daemonsets", "statefulsets", "replicasets", "jobs", "cronjobs"}, writes, "runs pods, with any service account of the namespace"},
		{[]string{"security.openshift.io"}, []string{"securitycontextconstraints"}, append([]string{"use"}, writes...), "decides what pods may do on nodes"},
	}
)

// sensitive says what somebody could make of verbs on a resource; empty if nothing in particular.
func sensitive(group, resource string, verbs []string) string {
	anyOf := func(of []string, one string) bool { return of == nil || slices.Contains(of, one) }
	for _, d := range dangers {
		if resource != "" && anyOf(d.groups, group) && anyOf(d.resources, resource) && slices.ContainsFunc(verbs, func(verb string) bool { return anyOf(d.verbs, verb) }) {
			return d.why
		}
	}
	return ""
}
