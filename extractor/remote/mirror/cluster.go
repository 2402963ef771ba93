// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"go.podman.io/image/v5/pkg/sysregistriesv2"

	"github.com/capi-installer/capi-installer/extractor/scope"
)

// Cluster holds the objects of an OpenShift cluster that configure mirrors. They have the same effect as on the
// cluster's nodes.
type Cluster struct {
	// DigestMirrors, TagMirrors and ContentSources are all objects of these kinds.
	DigestMirrors []configv1.ImageDigestMirrorSet
	TagMirrors    []configv1.ImageTagMirrorSet
	// ContentSources are the predecessors of DigestMirrors, with the same meaning.
	ContentSources []operatorv1alpha1.ImageContentSourcePolicy
	// Sources is spec.registrySources of Image "cluster".
	Sources configv1.RegistrySources
}

// Rules returns the rules, made with the parser of registries.conf; see Parse for dir and errors.
//
// The mirrors of all objects for one source are merged into one list, which keeps the order of each object.
// If two objects contradict each other, the object that is first by name takes
// precedence. Mirrors of digest mirror sets and of content source policies serve
// references by digest only, those of tag mirror sets references by tag only.
// NeverContactSource in one object blocks the source, even if other objects allow it.
func (c Cluster) Rules(dir string) (*Rules, error) {
	conf, err := c.RegistriesConf()
	if err != nil {
		return nil, err
	}
	rules, err := Parse(dir, conf)
	if err != nil {
		return nil, fmt.Errorf("applying the mirror sets and Image \"cluster\": %w", err)
	}
	rules.allowed = c.allowed()
	return rules, nil
}

// allowed returns the scopes of allowedRegistries; nil allows everything. Mirrors need not be listed: the nodes' policy
// applies to the names of images.
func (c Cluster) allowed() []string {
	if len(c.Sources.AllowedRegistries) == 0 {
		return nil
	}
	return slices.Clone(c.Sources.AllowedRegistries)
}

// RegistriesConf returns the rules as the text of a registries.conf, which cannot express allowedRegistries.
func (c Cluster) RegistriesConf() ([]byte, error) {
	conf := struct {
		Registries []sysregistriesv2.Registry `toml:"registry"`
	}{c.registries()}
	var out bytes.Buffer
	if err := toml.NewEncoder(&out).Encode(conf); err != nil {
		return nil, fmt.Errorf("writing registries.conf: %w", err)
	}
	return out.Bytes(), nil
}

// sourceRules are the rules of all objects for one source.
type sourceRules struct {
	neverContact bool
	byDigest     [][]string // a list per object
	byTag        [][]string
}

func (c Cluster) registries() []sysregistriesv2.Registry {
	sources := c.sources()
	scopes := slices.Concat(c.Sources.BlockedRegistries, c.Sources.InsecureRegistries)
	for scope := range sources {
		scopes = append(scopes, scope)
	}
	slices.Sort(scopes)
	var registries []sysregistriesv2.Registry
	for _, scope := range slices.Compact(scopes) {
		rules := cmp.Or(sources[scope], &sourceRules{})
		registry := sysregistriesv2.Registry{
			Prefix: scope, Endpoint: c.endpoint(scope, ""),
			Blocked: rules.neverContact || c.blocked(scope),
		}
		if strings.HasPrefix(scope, "*.") {
			registry.Location = ""
		}
		for _, mirror := range merge(rules.byDigest) {
			registry.Mirrors = append(registry.Mirrors, c.endpoint(mirror, sysregistriesv2.MirrorByDigestOnly))
		}
		for _, mirror := range merge(rules.byTag) {
			registry.Mirrors = append(registry.Mirrors, c.endpoint(mirror, sysregistriesv2.MirrorByTagOnly))
		}
		registries = append(registries, registry)
	}
	return registries
}

func (c Cluster) endpoint(location, pull string) sysregistriesv2.Endpoint {
	return sysregistriesv2.Endpoint{Location: location, PullFromMirror: pull, Insecure: nested(location, c.Sources.InsecureRegistries)}
}

func (c Cluster) blocked(in string) bool { return nested(in, c.Sources.BlockedRegistries) }

// nested reports whether a scope is nested in one of others.
func nested(in string, others []string) bool {
	return slices.ContainsFunc(others, func(other string) bool { return scope.Nested(in, other) })
}

// sources groups the rules by source, in the order of the objects' names.
func (c Cluster) sources() map[string]*sourceRules {
	all := map[string]*sourceRules{}
	at := func(scope string, policy configv1.MirrorSourcePolicy) *sourceRules {
		if all[scope] == nil {
			all[scope] = &sourceRules{}
		}
		all[scope].neverContact = all[scope].neverContact || policy == configv1.NeverContactSource
		return all[scope]
	}
	for _, set := range byName(c.DigestMirrors, func(s configv1.ImageDigestMirrorSet) string { return s.Name }) {
		for _, m := range set.Spec.ImageDigestMirrors {
			s := at(m.Source, m.MirrorSourcePolicy)
			s.byDigest = append(s.byDigest, mirrorStrings(m.Mirrors))
		}
	}
	for _, policy := range byName(c.ContentSources, func(p operatorv1alpha1.ImageContentSourcePolicy) string { return p.Name }) {
		for _, m := range policy.Spec.RepositoryDigestMirrors {
			s := at(m.Source, "")
			s.byDigest = append(s.byDigest, m.Mirrors)
		}
	}
	for _, set := range byName(c.TagMirrors, func(s configv1.ImageTagMirrorSet) string { return s.Name }) {
		for _, m := range set.Spec.ImageTagMirrors {
			s := at(m.Source, m.MirrorSourcePolicy)
			s.byTag = append(s.byTag, mirrorStrings(m.Mirrors))
		}
	}
	return all
}

func byName[T any](objects []T, name func(T) string) []T {
	return slices.SortedFunc(slices.Values(objects), func(a, b T) int { return strings.Compare(name(a), name(b)) })
}

func mirrorStrings(mirrors []configv1.ImageMirror) []string {
	out := make([]string, len(mirrors))
	for i, m := range mirrors {
		out[i] = string(m)
	}
	return out
}

// merge merges lists by a topological sort: the next item is always the first one, in the order of
// the lists, without remaining predecessors in any list; if there is none,
// because lists contradict each other, the first remaining item.
func merge(lists [][]string) []string {
	var left []string
	behind := map[string][]string{}
	for _, list := range lists {
		for i, item := range list {
			if !slices.Contains(left, item) {
				left = append(left, item)
			}
			behind[item] = append(behind[item], list[:i]...)
		}
	}
	var merged []string
	for len(left) > 0 {
		next := max(0, slices.IndexFunc(left, func(item string) bool {
			return !slices.ContainsFunc(behind[item], func(before string) bool { return before != item && slices.Contains(left, before) })
		}))
		merged = append(merged, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return merged
}
