// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
)

// all lists the names of components.
func all(names []string) string { return strings.Join(names, ", ") }

// signatureLines returns the verdicts with their components, one line for each verdict and scope, worst first.
func (r Report) signatureLines(list func(names []string) string) (lines []string) {
	for _, decision := range []v1alpha1.Verdict{v1alpha1.VerdictRejected, v1alpha1.VerdictUndecided, v1alpha1.VerdictAccepted, v1alpha1.VerdictNotEnforced} {
		var by []string
		components := map[string][]string{}
		for _, signature := range r.Signatures {
			if signature.Verdict == decision {
				text := verdict.Installed(signature).String()
				by = append(by, text)
				components[text] = append(components[text], r.componentsOf(signature.Image)...)
			}
		}
		slices.Sort(by)
		for _, text := range slices.Compact(by) {
			slices.Sort(components[text])
			lines = append(lines, text+": "+list(slices.Compact(components[text])))
		}
	}
	return lines
}

// componentsOf returns the names of the components with an image, with their versions.
func (r Report) componentsOf(image v1alpha1.ImageReference) (names []string) {
	for _, version := range r.Versions {
		for _, component := range version.Components {
			if component.Image == image {
				names = append(names, strings.TrimSpace(component.Name+" "+component.Version))
			}
		}
	}
	return names
}
