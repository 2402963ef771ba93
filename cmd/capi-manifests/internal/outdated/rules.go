// SPDX-License-Identifier: Apache-2.0

package outdated

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// maxMinors is the number of newer minor versions that are read of a repository.
const maxMinors = 8

// newerTags returns the tags that are newer versions: of each minor version the newest one, newest first. Prereleases count only for a prerelease.
func newerTags(tags []string, current string) (newer []string) {
	now, err := utilversion.ParseSemantic(current)
	if err != nil {
		return nil
	}
	versions := map[string]*utilversion.Version{}
	for _, tag := range tags {
		version, err := utilversion.ParseSemantic(tag)
		if err == nil && now.LessThan(version) && (version.PreRelease() == "" || now.PreRelease() != "") {
			versions[tag], newer = version, append(newer, tag)
		}
	}
	slices.SortFunc(newer, func(a, b string) int {
		switch {
		case versions[b].LessThan(versions[a]):
			return -1
		case versions[a].LessThan(versions[b]):
			return 1
		}
		return strings.Compare(a, b) // v1.0.0 and 1.0.0
	})
	minor := func(tag string) string { return fmt.Sprint(versions[tag].Major(), ".", versions[tag].Minor()) }
	newer = slices.CompactFunc(newer, func(a, b string) bool { return minor(a) == minor(b) })
	return newer[:min(len(newer), maxMinors)]
}

// rules are clusterctl's rules about an upgrade of one provider of a release.
type rules struct {
	// objects are the objects of the providers, by name.
	objects map[string][]*unstructured.Unstructured
}

func newRules(providers []Provider) (rules, error) {
	r := rules{objects: map[string][]*unstructured.Unstructured{}}
	for _, p := range providers {
		objects, err := objectsOf(p.bundle)
		if err != nil {
			return r, err
		}
		r.objects[p.Name] = objects
	}
	return r, nil
}

// judge returns an error if clusterctl rejects an upgrade of a provider to a bundle, while the other providers stay.
func (r rules) judge(p Provider, to extractor.Bundle) error {
	before, after := p.Version, to.Metadata.ProviderVersion
	if capicontract.IsClusterAPI(string(to.Metadata.ProviderType), to.Metadata.ProviderName) && capicontract.SkipsMinors(before, after) {
		return fmt.Errorf("from %s to %s, it skips more than %d minor versions", before, after, capicontract.MaxMinors)
	}
	upgraded, err := objectsOf(to)
	if err != nil {
		return err
	}
	with := maps.Clone(r.objects)
	with[p.Name] = upgraded
	core, unsupported := unsupportedOf(with)
	if contract, found := unsupported[p.Name]; found {
		return fmt.Errorf("%s implements contract %s, which the core provider with contract %s does not support", p.Name, contract, core)
	}
	if !slices.ContainsFunc(upgraded, func(o *unstructured.Unstructured) bool { return o.GetName() == capicontract.CoreCRD }) || len(unsupported) == 0 {
		return nil
	}
	return fmt.Errorf("its contract %s does not support the contracts of %s", core, text.Join(slices.Sorted(maps.Keys(unsupported))))
}

// unsupportedOf returns the contract of the core provider among the objects of providers, and the providers that it does not support.
func unsupportedOf(providers map[string][]*unstructured.Unstructured) (core string, unsupported map[string]string) {
	var all capicontract.Contracts
	for name, objects := range providers {
		for _, o := range objects {
			if object.IsCRD(o) {
				all.Add(name, o.GetName(), o.GetLabels())
			}
		}
	}
	return all.Core, all.Unsupported()
}
