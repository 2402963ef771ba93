// SPDX-License-Identifier: Apache-2.0

package outdated

import (
	"fmt"
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
	// core is the contract of the core provider; empty if the release has none.
	core string
	// labels are those of the CRDs with contracts, by the name of the provider.
	labels map[string][]map[string]string
}

func newRules(providers []Provider) (rules, error) {
	r := rules{labels: map[string][]map[string]string{}}
	for _, p := range providers {
		objects, err := objectsOf(p.bundle)
		if err != nil {
			return r, err
		}
		var core string
		if r.labels[p.Name], core = contractLabels(objects); core != "" {
			r.core = core
		}
	}
	return r, nil
}

// coreCRD has the contract of the core provider.
const coreCRD = "clusters.cluster.x-k8s.io"

// contractLabels returns the labels of the CRDs with contracts, and the contract of the core provider if the objects are of it.
func contractLabels(objects []*unstructured.Unstructured) (labels []map[string]string, core string) {
	for _, o := range objects {
		contract := capicontract.Of(o.GetLabels())
		if !object.IsCRD(o) || contract == "" {
			continue
		}
		labels = append(labels, o.GetLabels())
		if o.GetName() == coreCRD {
			core = contract
		}
	}
	return labels, core
}

// judge returns an error if clusterctl rejects an upgrade of a provider to a bundle, while the other providers stay.
func (r rules) judge(p Provider, to extractor.Bundle) error {
	before, after := p.Version, to.Metadata.ProviderVersion
	if isClusterAPI(to) && capicontract.SkipsMinors(before, after) {
		return fmt.Errorf("from %s to %s, it skips more than %d minor versions", before, after, capicontract.MaxMinors)
	}
	objects, err := objectsOf(to)
	if err != nil {
		return err
	}
	labels, core := contractLabels(objects)
	if core == "" {
		return r.supported(p.Name, labels)
	}
	var unsupported []string
	with := rules{core: core}
	for name, labels := range r.labels {
		if name != p.Name && with.supported(name, labels) != nil {
			unsupported = append(unsupported, name)
		}
	}
	if len(unsupported) == 0 {
		return nil
	}
	slices.Sort(unsupported)
	return fmt.Errorf("its contract %s does not support the contracts of %s", core, text.Join(unsupported))
}

// supported returns an error if the core provider supports no contract of a provider.
func (r rules) supported(name string, labels []map[string]string) error {
	supports := func(of map[string]string) bool { return capicontract.Supports(r.core, of) }
	if r.core == "" || len(labels) == 0 || slices.ContainsFunc(labels, supports) {
		return nil
	}
	return fmt.Errorf("%s implements contract %s, which the core provider with contract %s does not support", name, capicontract.Of(labels[0]), r.core)
}

// isClusterAPI reports whether a bundle is one of the providers that Cluster API's repository has.
func isClusterAPI(bundle extractor.Bundle) bool {
	kind := bundle.Metadata.ProviderType
	return kind == extractor.Core || strings.Contains(bundle.Metadata.ProviderName, "kubeadm") && (kind == extractor.Bootstrap || kind == extractor.ControlPlane)
}
