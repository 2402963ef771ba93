// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"slices"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
)

// recordVerdicts records the verdicts of the signature policies on the images of the desired and the current version. A
// verdict that was not reached in this reconcile, because of another error, replaces none.
func (r *Reconciler) recordVerdicts(ctx context.Context, outcome status.Outcome, s *v1alpha1.ClusterAPIStatus) {
	if r.Verdict == nil {
		return
	}
	var verdicts []v1alpha1.SignatureVerdict
	for _, image := range imagesInUse(s) {
		verdict := r.Verdict(ctx, string(image))
		before := slices.IndexFunc(s.SignatureVerdicts, func(v v1alpha1.SignatureVerdict) bool { return v.Image == image })
		if verdict.Verdict == v1alpha1.VerdictUndecided && before >= 0 && outcome.Reason != reason.ImageUntrusted {
			verdict = s.SignatureVerdicts[before]
		}
		verdicts = append(verdicts, verdict)
	}
	s.SignatureVerdicts = verdicts
}

// imagesInUse returns the images of the desired and the current version, sorted.
func imagesInUse(s *v1alpha1.ClusterAPIStatus) (images []v1alpha1.ImageReference) {
	for _, name := range []string{s.DesiredVersion, s.CurrentVersion} {
		version := s.Version(name)
		if version == nil {
			continue
		}
		for _, component := range version.Components {
			if component.Image != "" {
				images = append(images, component.Image)
			}
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}
