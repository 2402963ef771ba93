// SPDX-License-Identifier: Apache-2.0

package registryconfig

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	"go.podman.io/image/v5/pkg/sysregistriesv2"

	"github.com/capi-installer/capi-installer/extractor/scope"
)

// mirrorObjects are the objects of an OpenShift cluster that configure mirrors. They have the same effect as on the cluster's nodes:
// registriesConf writes the rules that the machine config operator writes for the nodes.
//
//   - The mirrors of all objects for one source are merged into one list that keeps the order of each object. Mirrors
//     without an order between them, and contradictions, are sorted by name.
//   - Mirrors of digest mirror sets and of content source policies serve references by digest only, the mirrors of tag
//     mirror sets references by tag only.
//   - NeverContactSource in one object blocks the source, even if other objects allow it.
//   - An entry of an object without a mirror besides the source is ignored, with its policy.
//   - In registries.conf, only the most specific entry for an image counts. So an entry is blocked or insecure if a scope
//     around it is, and an entry without mirrors of its own has the mirrors of a scope around it.
type mirrorObjects struct {
	// digestMirrors, tagMirrors and contentSources are all objects of these kinds.
	digestMirrors []configv1.ImageDigestMirrorSet
	tagMirrors    []configv1.ImageTagMirrorSet
	// contentSources are the predecessors of digestMirrors, with the same meaning.
	contentSources []operatorv1alpha1.ImageContentSourcePolicy
	// sources is spec.registrySources of Image "cluster".
	sources configv1.RegistrySources
}

// registriesConf returns the text of a registries.conf. The format cannot express allowedRegistries.
func (c mirrorObjects) registriesConf() ([]byte, error) {
	conf := struct {
		Registries []sysregistriesv2.Registry `toml:"registry"`
	}{c.registries()}
	var out bytes.Buffer
	if err := toml.NewEncoder(&out).Encode(conf); err != nil {
		return nil, fmt.Errorf("writing registries.conf: %w", err)
	}
	return out.Bytes(), nil
}

func (c mirrorObjects) registries() []sysregistriesv2.Registry {
	digests, tags := c.mirrorSets()
	sources := slices.Concat(digests.sources(), tags.sources())
	mirrors := map[string][]sysregistriesv2.Endpoint{}
	for _, source := range digests.sources() {
		mirrors[source] = append(mirrors[source], c.endpoints(digests.lists[source], source, sysregistriesv2.MirrorByDigestOnly)...)
	}
	for _, source := range tags.sources() {
		mirrors[source] = append(mirrors[source], c.endpoints(tags.lists[source], source, sysregistriesv2.MirrorByTagOnly)...)
	}
	var registries []sysregistriesv2.Registry
	for _, in := range sortedUnique(slices.Concat(sources, c.sources.BlockedRegistries, c.sources.InsecureRegistries)) {
		registry := sysregistriesv2.Registry{
			Prefix: in, Endpoint: c.endpoint(in, ""), Mirrors: mirrors[in],
			Blocked: digests.never[in] || tags.never[in] || nested(in, c.sources.BlockedRegistries),
		}
		if len(registry.Mirrors) == 0 {
			registry.Mirrors = inherited(in, sources, mirrors)
		}
		if strings.HasPrefix(in, "*.") {
			registry.Location = ""
		}
		registries = append(registries, registry)
	}
	return registries
}

func (c mirrorObjects) endpoint(location, pull string) sysregistriesv2.Endpoint {
	return sysregistriesv2.Endpoint{Location: location, PullFromMirror: pull, Insecure: nested(location, c.sources.InsecureRegistries)}
}

// endpoints returns the mirrors of a source, merged from the lists of several objects.
func (c mirrorObjects) endpoints(lists [][]string, source, pull string) []sysregistriesv2.Endpoint {
	var endpoints []sysregistriesv2.Endpoint
	for _, location := range merge(lists, source) {
		endpoints = append(endpoints, c.endpoint(location, pull))
	}
	return endpoints
}

// nested reports whether a scope is nested in one of others.
func nested(in string, others []string) bool {
	return slices.ContainsFunc(others, func(other string) bool { return scope.Nested(in, other) })
}

// inherited returns the mirrors of the first source around a scope, with the locations that the scope has there. The
// machine config operator also takes the first one by name, the widest.
func inherited(in string, sources []string, mirrors map[string][]sysregistriesv2.Endpoint) []sysregistriesv2.Endpoint {
	i := slices.IndexFunc(sources, func(source string) bool { return scope.Nested(in, source) })
	if i < 0 {
		return nil
	}
	below := strings.TrimPrefix(in, sources[i])
	if strings.HasPrefix(sources[i], "*.") { // its mirrors replace the registry
		_, below, _ = strings.Cut(in, "/")
		below = strings.TrimSuffix("/"+below, "/")
	}
	out := slices.Clone(mirrors[sources[i]])
	for n := range out {
		out[n].Location += below
	}
	return out
}

// mirrorSets are the mirrors of all objects of one kind, for digests or for tags.
type mirrorSets struct {
	lists map[string][][]string // by source, a list per object
	never map[string]bool       // sources with NeverContactSource
}

// mirrorSets returns the mirror sets for digests and for tags.
func (c mirrorObjects) mirrorSets() (digests, tags mirrorSets) {
	digests, tags = mirrorSets{map[string][][]string{}, map[string]bool{}}, mirrorSets{map[string][][]string{}, map[string]bool{}}
	for _, set := range c.digestMirrors {
		for _, m := range set.Spec.ImageDigestMirrors {
			digests.add(m.Source, m.Mirrors, m.MirrorSourcePolicy)
		}
	}
	for _, policy := range c.contentSources {
		for _, m := range policy.Spec.RepositoryDigestMirrors {
			mirrors := make([]configv1.ImageMirror, len(m.Mirrors))
			for i, mirror := range m.Mirrors {
				mirrors[i] = configv1.ImageMirror(mirror)
			}
			digests.add(m.Source, mirrors, "")
		}
	}
	for _, set := range c.tagMirrors {
		for _, m := range set.Spec.ImageTagMirrors {
			tags.add(m.Source, m.Mirrors, m.MirrorSourcePolicy)
		}
	}
	return digests, tags
}

// add adds an entry of an object unless its only mirror is the source itself.
func (s mirrorSets) add(source string, mirrors []configv1.ImageMirror, policy configv1.MirrorSourcePolicy) {
	if !slices.ContainsFunc(mirrors, func(m configv1.ImageMirror) bool { return string(m) != source }) {
		return
	}
	list := make([]string, len(mirrors))
	for i, m := range mirrors {
		list[i] = string(m)
	}
	s.lists[source] = append(s.lists[source], list)
	s.never[source] = s.never[source] || policy == configv1.NeverContactSource
}

func (s mirrorSets) sources() []string { return slices.Sorted(maps.Keys(s.lists)) }

func sortedUnique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// merge merges the lists of mirrors of a source by a topological sort. The source follows each list without it. Next
// are the mirrors that become free because the mirrors before them in all lists are merged, by name. If there is
// none, because lists contradict each other, the next one is the first by name. The source is not part of the result
// if it is last: it is tried after its mirrors anyway.
func merge(lists [][]string, source string) []string {
	before, after := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, list := range lists {
		if !slices.Contains(list, source) {
			list = append(slices.Clone(list), source)
		}
		for i, name := range list {
			if before[name] == nil {
				before[name], after[name] = map[string]bool{}, map[string]bool{}
			}
			if i > 0 {
				before[name][list[i-1]], after[list[i-1]][name] = true, true
			}
		}
	}
	names := slices.Sorted(maps.Keys(before))
	isFree := func(name string) bool { return len(before[name]) == 0 }
	var merged []string
	for free := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isFree(name) }); len(merged) < len(names); free = free[1:] {
		if len(free) == 0 {
			free = names[slices.IndexFunc(names, func(name string) bool { return !slices.Contains(merged, name) }):]
			free = free[:1:1]
		}
		merged = append(merged, free[0])
		for _, name := range slices.Sorted(maps.Keys(after[free[0]])) {
			if delete(before[name], free[0]); isFree(name) && !slices.Contains(merged, name) {
				free = append(free, name)
			}
		}
	}
	if n := len(merged) - 1; n >= 0 && merged[n] == source {
		return merged[:n]
	}
	return merged
}
