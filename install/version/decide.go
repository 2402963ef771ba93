// SPDX-License-Identifier: Apache-2.0

package version

import (
	"cmp"
	"context"

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
// that rendering gives the same objects. A newer renderer may give other objects,
// which make a new version.
func (r *Reconciler) decide(ctx context.Context, cluster *v1alpha1.ClusterAPI, inputs inputs, existing []corev1.ConfigMap) status.Outcome {
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	matches := desired != nil && revision.Same(*desired, operand.ContentID(inputs.bundles, inputs.variables), cluster.Spec.UnmanagedCRDs)
	if matches && isReadable(*desired, existing) {
		return r.maintain(ctx, cluster, inputs, existing)
	}
	set, err := operand.RenderPacked(inputs.bundles, inputs.variables)
	if err != nil {
		return status.Outcome{Reason: reason.RenderFailed, Err: err}
	}
	stored, err := revision.Encode(set)
	if err != nil {
		return status.Outcome{Reason: reason.RenderFailed, Err: err}
	}
	if !matches || string(desired.ManifestsDigest) != stored.Digest.String() {
		return r.add(ctx, cluster, set, stored, existing)
	}
	if err := r.store(ctx, cluster, *desired, stored, true); err != nil {
		return status.Outcome{Reason: reason.WriteFailed, Err: err}
	}
	return r.retire(ctx, cluster, existing)
}

// maintain updates the records of a desired version that matches the inputs.
func (r *Reconciler) maintain(ctx context.Context, cluster *v1alpha1.ClusterAPI, inputs inputs, existing []corev1.ConfigMap) status.Outcome {
	if err := r.annotatePlatforms(ctx, named(existing, cluster.Status.DesiredVersion), inputs.platforms); err != nil {
		return status.Outcome{Reason: reason.WriteFailed, Err: err}
	}
	return r.retire(ctx, cluster, existing)
}

// installedAs returns the version whose objects a new version adopts unchanged;
// empty if there is none. It is the desired version if that has the same objects
// from other inputs, such as an image instead of ConfigMaps.
func installedAs(cluster *v1alpha1.ClusterAPI, set operand.Set, existing []corev1.ConfigMap) string {
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	if desired == nil || !revision.SameUnmanaged(*desired, cluster.Spec.UnmanagedCRDs) {
		return ""
	}
	stored, err := revision.FromConfigMaps(desired.Name, existing)
	if err != nil || stored.Digest.String() != string(desired.ManifestsDigest) {
		return ""
	}
	before, err := stored.DecodePacked()
	if err != nil || !revision.SameObjects(before, set) {
		return ""
	}
	return cmp.Or(desired.InstalledAs, desired.Name)
}

// rollingOut is the outcome until the desired version is installed.
func rollingOut(version string) status.Outcome {
	return status.Outcome{Reason: reason.RollingOut, Message: "waiting for version " + version + " to be installed"}
}
