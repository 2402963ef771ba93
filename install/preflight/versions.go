// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// versions returns the findings about the versions of providers and their contracts.
func (r Release) versions() []Finding {
	var found []Finding
	for _, component := range r.Components {
		for _, installed := range r.Installed {
			if installed.Type == component.Type && installed.Name == component.Name && ofClusterAPI(component) && capicontract.SkipsMinors(installed.Version, component.Version) {
				found = append(found, Finding{Reason: reason.RiskNotAccepted, Risk: v1alpha1.SkippedVersions, Message: fmt.Sprintf(
					"provider %s: the upgrade from %s to %s skips more than %d minor versions, which clusterctl rejects", component.Name, installed.Version, component.Version, capicontract.MaxMinors)})
			}
		}
	}
	return append(found, contracts(slices.Concat(r.Phases, r.Unchanged))...)
}

// ofClusterAPI reports whether a component is one of the providers that Cluster API's repository has.
func ofClusterAPI(component v1alpha1.Component) bool {
	return component.Type == "core" || strings.Contains(component.Name, "kubeadm") && (component.Type == "bootstrap" || component.Type == "controlplane")
}

// contracts returns a finding for each provider whose CRDs have labels of contracts, but of none that the core provider supports.
func contracts(phases []revision.Phase) (found []Finding) {
	labels := map[string][]map[string]string{} // of the CRDs of each component that have contracts
	core := ""
	for _, phase := range phases {
		for _, obj := range phase.Objects {
			contract := capicontract.Of(obj.GetLabels())
			if !object.IsCRD(obj) || contract == "" {
				continue
			}
			labels[phase.Component] = append(labels[phase.Component], obj.GetLabels())
			if obj.GetName() == coreCRD {
				core = contract
			}
		}
	}
	for _, component := range slices.Sorted(maps.Keys(labels)) {
		supported := func(of map[string]string) bool { return capicontract.Supports(core, of) }
		if crds := labels[component]; core != "" && !slices.ContainsFunc(crds, supported) {
			found = append(found, Finding{Reason: reason.RiskNotAccepted, Risk: v1alpha1.UnsupportedContract, Message: fmt.Sprintf(
				"provider %s implements contract %s, which the core provider with contract %s does not support", path.Base(component), capicontract.Of(crds[0]), core)})
		}
	}
	return found
}

// coreCRD has the contract of the core provider.
const coreCRD = "clusters.cluster.x-k8s.io"
