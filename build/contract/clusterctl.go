// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"maps"
	"slices"
	"strings"
)

const providerLabel = "cluster.x-k8s.io/provider"

// clusterctlRules are those of the clusterctl provider contract that are about objects.
var clusterctlRules = []Rule{{
	ID:       "clusterctl/provider-label",
	Severity: Warning,
	Source:   clusterctl("Labels"),
	Why:      "The label says which provider an object belongs to; clusterctl and people find the objects of a provider by it.",
	Fix:      "Label every object, in a kustomization with \"labels: [{pairs: {cluster.x-k8s.io/provider: infrastructure-<name>}}]\".",
	Check: eachObject(func(o *Object) []Finding {
		label := o.At("metadata", "labels", providerLabel)
		if label.Text() != "" {
			return nil
		}
		return []Finding{label.finding("the label %s is missing", providerLabel)}
	}),
}, {
	ID:       "clusterctl/provider-label-single",
	Severity: Warning,
	Source:   clusterctl("Labels"),
	Why:      "Bundles and releases are of one provider. Objects under two names are found only in part.",
	Fix:      "Give all objects the same value.",
	Check:    checkOneProvider,
}, {
	ID:       "clusterctl/manager-container",
	Severity: Error,
	Source:   clusterctl("Controllers & Watching namespace"),
	Why:      "The pod that runs the provider's controllers MUST have a container named manager; tools find the provider's image and flags by it.",
	Fix:      "Name the container manager.",
	Check:    checkManager,
}, {
	ID:       "clusterctl/provider-label-value",
	Severity: Warning,
	Source:   clusterctl("Labels"),
	Why:      "clusterctl finds the objects of a provider by the value that it makes of the type and the name. Those with another one are not found.",
	Fix:      "Use cluster-api for core, and infrastructure-, control-plane-, bootstrap-, ipam-, runtime-extension- or addon- with the name for others.",
	Check: eachObject(func(o *Object) []Finding {
		label := o.At("metadata", "labels", providerLabel)
		if text := label.Text(); text == "" || text == "cluster-api" || slices.ContainsFunc(slices.Collect(maps.Values(labelPrefixes)), func(prefix string) bool { return strings.HasPrefix(text, prefix) }) {
			return nil
		}
		return []Finding{label.finding("%s is no type with a name", label.Text())}
	}),
}, {
	ID:       "clusterctl/provider-label-matches-name",
	Severity: Info,
	Source:   clusterctl("Labels"),
	Why:      "People look for a provider by its name, which a bundle has in the metadata and a release in its directory.",
	Fix:      "Use the same name in both.",
	Check: func(b *Bundle) []Finding {
		for _, o := range b.Objects {
			label := o.At("metadata", "labels", providerLabel)
			if label.Text() == "" {
				continue
			}
			if want := ProviderLabel(b.Metadata); label.Text() != want {
				return []Finding{label.finding("the label is %s, the name of the provider would make it %s", label.Text(), want)}
			}
			return nil
		}
		return nil
	},
}, {
	ID:       "clusterctl/move-labels",
	Severity: Info,
	Source:   clusterctl("Move"),
	Why:      "\"clusterctl move\" moves what belongs to a Cluster. An identity belongs to none, and stays behind, unless its CRD says otherwise.",
	Fix:      "Label the CRD with clusterctl.cluster.x-k8s.io/move or clusterctl.cluster.x-k8s.io/move-hierarchy, if its objects have to be moved.",
	Check: eachDefinition(allDefinitions, func(d *definition) []Finding {
		labels := d.At("metadata", "labels")
		moves := labels.At("clusterctl.cluster.x-k8s.io/move").node != nil || labels.At("clusterctl.cluster.x-k8s.io/move-hierarchy").node != nil
		if !strings.HasSuffix(d.Defines, "Identity") || moves {
			return nil
		}
		return []Finding{labels.finding("objects of %s are not moved", d.Defines)}
	}),
}}

func checkOneProvider(b *Bundle) (findings []Finding) {
	first := ""
	for _, o := range b.Objects {
		label := o.At("metadata", "labels", providerLabel)
		switch text := label.Text(); {
		case text == "":
		case first == "":
			first = text
		case text != first:
			findings = append(findings, label.finding("the provider is %s here, but %s in objects before", text, first))
		}
	}
	return findings
}

// checkManager looks for a container named manager in any Deployment: others may
// run beside the controllers.
func checkManager(b *Bundle) []Finding {
	deployments := b.ofKind(deploymentKind)
	for _, o := range deployments {
		for container := range containers(o) {
			if container.At("name").Text() == "manager" {
				return nil
			}
		}
	}
	if len(deployments) == 0 {
		return nil
	}
	return []Finding{podSpec(deployments[0]).At("containers").finding("no container of any Deployment is named manager")}
}
