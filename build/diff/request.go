// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"slices"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// request is a kind of request that a webhook matches; "*" matches any value.
type request struct{ operation, group, resource, version, scope string }

// String returns text such as "CREATE awsclusters.infrastructure.cluster.x-k8s.io".
func (r request) String() string {
	target := apischema.GroupResource{Group: r.group, Resource: r.resource}
	return strings.TrimSpace(r.operation+" "+target.String()+" "+r.version) + r.scope
}

// includes reports whether a webhook that matches r also matches other.
func (r request) includes(other request) bool {
	return wildcard(r.operation, other.operation) && wildcard(r.group, other.group) && wildcard(r.version, other.version) &&
		includesResource(r.resource, other.resource) && (r.scope == "" || r.scope == other.scope)
}

func wildcard(pattern, value string) bool { return pattern == "*" || pattern == value }

// includesResource matches resources as webhook rules do: "*" matches all resources
// but no subresources, "*/*" all of both, "pods/*" all subresources of pods.
func includesResource(pattern, resource string) bool {
	if pattern == "*/*" || pattern == resource {
		return true
	}
	name, subresource, hasSubresource := strings.Cut(resource, "/")
	patternName, patternSubresource, patternHasSubresource := strings.Cut(pattern, "/")
	return hasSubresource == patternHasSubresource && wildcard(patternName, name) && wildcard(patternSubresource, subresource)
}

// requestsOf returns the sorted requests that a webhook matches.
func requestsOf(webhook map[string]any, withVersion bool) (requests []request) {
	for _, rule := range mapsAt(webhook, "rules") {
		versions := []string{""}
		if withVersion {
			versions = textsAt(rule, "apiVersions")
		}
		for _, operation := range textsAt(rule, "operations") {
			for _, resource := range textsAt(rule, "resources") {
				for _, group := range textsAt(rule, "apiGroups") {
					for _, version := range versions {
						requests = append(requests, request{operation, group, resource, version, scopeOf(rule)})
					}
				}
			}
		}
	}
	slices.SortFunc(requests, func(a, b request) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(requests)
}

// notIncluded returns the requests of all that no request of some includes.
func notIncluded(some, all []request) []request {
	return slices.DeleteFunc(slices.Clone(all), func(one request) bool {
		return slices.ContainsFunc(some, func(other request) bool { return other.includes(one) })
	})
}

func describeRequests(requests []request) string {
	texts := make([]string, len(requests))
	for i, r := range requests {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}
