// SPDX-License-Identifier: Apache-2.0

package version

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
)

// decide creates a new version if the inputs differ from the desired version, and
// removes older versions once the desired version is installed.
//
// It renders nothing while the desired version matches the inputs and its
// ConfigMaps are readable. If they are unreadable, it stores them again, provided
// that rendering gives the same objects. A newer renderer may give other objects.
// They make a new version.
func (r *Reconciler) decide(ctx context.Context, release string, cluster *v1alpha1.ClusterAPI, inputs inputs, existing []corev1.ConfigMap) status.Outcome {
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	matches := desired != nil && revision.Same(*desired, operand.ContentID(inputs.Inputs), cluster.Spec.UnmanagedCRDs)
	if matches && isReadable(*desired, existing) {
		return r.maintain(ctx, cluster, inputs, existing)
	}
	set, err := operand.Render(inputs.Inputs)
	if err != nil {
		return status.Outcome{Reason: renderReason(err), Err: err}
	}
	inputs.Bundles = nil // they are rendered: their memory is free before the objects of the desired version are decoded
	if matches {
		stored, err := revision.Encode(asInstalled(set, *desired))
		if err == nil && string(desired.ManifestsDigest) == stored.Digest.String() {
			if err := r.storage().store(ctx, cluster, *desired, stored, inputs.Settings.Secrets, true); err != nil {
				return status.Outcome{Reason: reason.WriteFailed, Err: err}
			}
			return retirement{r.Client}.retire(ctx, cluster, existing)
		}
	}
	return r.add(ctx, release, cluster, set, inputs, existing)
}

// asInstalled returns a set with the owners of the components of a version that has the same components.
func asInstalled(set operand.Set, version v1alpha1.Version) operand.Set {
	set.Operands = slices.Clone(set.Operands)
	for i := range min(len(set.Operands), len(version.Components)) {
		set.Operands[i].InstalledAs = version.Components[i].InstalledAs
	}
	return set
}

// renderReason returns the reason of an error of rendering. An administrator can correct a setting, and must wait for another image.
func renderReason(err error) reason.Reason {
	if errors.As(err, new(*operand.SettingError)) {
		return reason.SettingsInvalid
	}
	return reason.RenderFailed
}

// maintain updates the records of a desired version that matches the inputs.
func (r *Reconciler) maintain(ctx context.Context, cluster *v1alpha1.ClusterAPI, inputs inputs, existing []corev1.ConfigMap) status.Outcome {
	if err := r.storage().annotatePlatforms(ctx, named(existing, cluster.Status.DesiredVersion), inputs.platforms); err != nil {
		return status.Outcome{Reason: reason.WriteFailed, Err: err}
	}
	return retirement{r.Client}.retire(ctx, cluster, existing)
}

// inherit returns the set of a new version with the owners of the components that are the same in the desired version. It
// also returns the version whose objects the new version adopts as a whole, because all of them are the same from other
// inputs, such as an image instead of ConfigMaps; empty if there is none.
//
// Objects are compared with the values of Secrets, not with their placeholders.
func inherit(cluster *v1alpha1.ClusterAPI, set operand.Set, inputs inputs, existing []corev1.ConfigMap) (operand.Set, string) {
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	if desired == nil {
		return set, ""
	}
	stored, err := revision.FromConfigMaps(desired.Name, existing)
	if err != nil || stored.Digest.String() != string(desired.ManifestsDigest) {
		return set, ""
	}
	before, err := stored.Decode()
	if err != nil {
		return set, ""
	}
	unmanaged := cluster.Spec.UnmanagedCRDs
	before, revealed := before.Revealed(inputs.former), set.Revealed(inputs.Settings.Secrets)
	inherited := revision.Inherit(revealed, unmanaged, *desired, before)
	set.Operands = slices.Clone(set.Operands)
	for i := range set.Operands {
		set.Operands[i].InstalledAs = inherited.Operands[i].InstalledAs
	}
	if !revision.SameUnmanaged(*desired, unmanaged) || !revision.SameObjects(before, revealed) {
		return set, ""
	}
	return set, cmp.Or(desired.InstalledAs, desired.Name)
}

// rollingOut is the outcome until the desired version is installed.
func rollingOut(version string) status.Outcome {
	return status.Outcome{Reason: reason.RollingOut, Message: "waiting for version " + version + " to be installed"}
}
