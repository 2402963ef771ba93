// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"maps"
	"path"
	"slices"

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
			if installed.Type == component.Type && installed.Name == component.Name && capicontract.IsClusterAPI(component.Type, component.Name) && capicontract.SkipsMinors(installed.Version, component.Version) {
				found = append(found, Finding{Reason: reason.RiskNotAccepted, Risk: v1alpha1.SkippedVersions, Message: fmt.Sprintf(
					"provider %s: the upgrade from %s to %s skips more than %d minor versions, which clusterctl rejects", component.Name, installed.Version, component.Version, capicontract.MaxMinors)})
			}
		}
	}
	return append(found, contracts(slices.Concat(r.Phases, r.Unchanged))...)
}

// contracts returns a finding for each provider whose CRDs have labels of contracts, but of none that the core provider supports.
func contracts(phases []revision.Phase) (found []Finding) {
	var all capicontract.Contracts
	for phase, obj := range revision.Objects(phases) {
		if object.IsCRD(obj) {
			all.Add(phase.Component, obj.GetName(), obj.GetLabels())
		}
	}
	unsupported := all.Unsupported()
	for _, component := range slices.Sorted(maps.Keys(unsupported)) {
		found = append(found, Finding{Reason: reason.RiskNotAccepted, Risk: v1alpha1.UnsupportedContract, Message: fmt.Sprintf(
			"provider %s implements contract %s, which the core provider with contract %s does not support", path.Base(component), unsupported[component], all.Core)})
	}
	return found
}
