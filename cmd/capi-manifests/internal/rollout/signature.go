// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// verdictWords are the verdicts of signature policies for people.
var verdictWords = map[v1alpha1.Verdict]string{
	v1alpha1.VerdictAccepted: "accepted", v1alpha1.VerdictRejected: "rejected", v1alpha1.VerdictUndecided: "undecided", v1alpha1.VerdictNotEnforced: "not enforced",
}

// signatureLines returns the verdicts with their components, one line for each verdict and scope, worst first.
func (r Report) signatureLines() (lines []string) {
	for _, verdict := range []v1alpha1.Verdict{v1alpha1.VerdictRejected, v1alpha1.VerdictUndecided, v1alpha1.VerdictAccepted, v1alpha1.VerdictNotEnforced} {
		var by []string
		components := map[string][]string{}
		for _, signature := range r.Signatures {
			if signature.Verdict == verdict {
				text := verdictText(signature)
				by = append(by, text)
				components[text] = append(components[text], r.componentsOf(signature.Image)...)
			}
		}
		slices.Sort(by)
		for _, text := range slices.Compact(by) {
			slices.Sort(components[text])
			lines = append(lines, text+": "+strings.Join(slices.Compact(components[text]), ", "))
		}
	}
	return lines
}

// verdictText formats a verdict, such as "accepted by scope quay.io of /etc/containers/policy.json".
func verdictText(signature v1alpha1.SignatureVerdict) string {
	text := verdictWords[signature.Verdict]
	if signature.Policy != "" {
		text += " by scope " + signature.Scope + " of " + signature.Policy
	}
	return text
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
