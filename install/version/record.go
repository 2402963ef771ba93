// SPDX-License-Identifier: Apache-2.0

package version

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
)

// record makes a decision the desired version, if it is not, and retires the
// versions that are no longer wanted once the desired one is installed.
//
// Nothing is rendered while the desired version is what it should be and its
// ConfigMaps are there. Where they are not, they are written again, if that gives
// the same objects; a newer renderer may make others of the same inputs, and then
// there is a new version.
func (r *Reconciler) record(ctx context.Context, cluster *v1alpha1.ClusterAPI, decision decision, existing []corev1.ConfigMap) status.Outcome {
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	wanted := desired != nil && revision.Same(*desired, operand.ContentID(decision.bundles, decision.variables), cluster.Spec.UnmanagedCRDs)
	if wanted && intact(*desired, existing) {
		return r.settle(ctx, cluster, decision, existing)
	}
	set, err := operand.Render(decision.bundles, decision.variables)
	if err != nil {
		return status.Outcome{Reason: status.RenderFailed, Err: err}
	}
	stored, err := revision.Encode(set)
	if err != nil {
		return status.Outcome{Reason: status.RenderFailed, Err: err}
	}
	if !wanted || string(desired.ManifestsDigest) != stored.Digest.String() {
		return r.add(ctx, cluster, set, stored, existing)
	}
	if err := r.store(ctx, cluster, *desired, stored, true); err != nil {
		return status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	return r.retire(ctx, cluster, existing)
}

// intact says whether the ConfigMaps of a version are there and hold what they should.
func intact(version v1alpha1.Version, existing []corev1.ConfigMap) bool {
	stored, err := revision.FromConfigMaps(version.Name, existing)
	return err == nil && stored.Digest.String() == string(version.ManifestsDigest)
}

func named(configMaps []corev1.ConfigMap, name string) *corev1.ConfigMap {
	at := slices.IndexFunc(configMaps, func(c corev1.ConfigMap) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return &configMaps[at]
}

// settle is what is left to do when the desired version is what should be installed.
func (r *Reconciler) settle(ctx context.Context, cluster *v1alpha1.ClusterAPI, decision decision, existing []corev1.ConfigMap) status.Outcome {
	if err := r.note(ctx, named(existing, cluster.Status.DesiredVersion), decision.elsewhere); err != nil {
		return status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	return r.retire(ctx, cluster, existing)
}

// add writes a new version: the revision ConfigMap first, then the status, so
// that whatever the status names can be read. A crash between the two leaves a
// ConfigMap that the next run finds and uses.
func (r *Reconciler) add(ctx context.Context, cluster *v1alpha1.ClusterAPI, set operand.Set, stored revision.Stored, existing []corev1.ConfigMap) status.Outcome {
	if len(cluster.Status.Versions) >= maxVersions {
		return r.makeRoom(ctx, cluster, existing)
	}
	name, number, err := r.number(cluster.Status.Versions, stored, existing)
	if err != nil {
		return status.Outcome{Reason: status.ImagesInvalid, Err: err}
	}
	version := v1alpha1.Version{
		Name: name, Revision: number,
		InstalledAs:     installedAs(cluster, set, existing),
		ContentID:       v1alpha1.Digest(set.ContentID),
		ManifestsDigest: v1alpha1.Digest(stored.Digest),
		UnmanagedCRDs:   slices.Clone(cluster.Spec.UnmanagedCRDs),
		Components:      set.Components(),
	}
	if err := r.store(ctx, cluster, version, stored, false); err != nil {
		return status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	_, err = r.Reporter.Update(ctx, func(s *v1alpha1.ClusterAPIStatus) {
		if s.Version(name) == nil {
			s.Versions = append(s.Versions, version)
		}
		s.DesiredVersion = name
	})
	if err != nil {
		return status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	log.FromContext(ctx).Info("New desired version", "version", name, "installedAs", version.InstalledAs,
		"contentID", set.ContentID, "components", len(set.Operands))
	return rollingOut(name)
}

// installedAs is the version as which a set is installed already; empty if it is
// not. That is so where the desired version has the very same objects, though they were made from
// something else: an image, say, instead of ConfigMaps.
func installedAs(cluster *v1alpha1.ClusterAPI, set operand.Set, existing []corev1.ConfigMap) string {
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	if desired == nil || !revision.SameUnmanaged(*desired, cluster.Spec.UnmanagedCRDs) {
		return ""
	}
	stored, err := revision.FromConfigMaps(desired.Name, existing)
	if err != nil || stored.Digest.String() != string(desired.ManifestsDigest) {
		return ""
	}
	before, err := stored.Decode()
	if err != nil || !revision.SameObjects(before, set) {
		return ""
	}
	return cmp.Or(desired.InstalledAs, desired.Name)
}

// rollingOut is the outcome until the desired version is installed.
func rollingOut(version string) status.Outcome {
	return status.Outcome{Reason: status.RollingOut, Message: "waiting for version " + version + " to be installed"}
}

// maxVersions is how many entries status.versions may have.
const maxVersions = 16

// makeRoom is what happens instead of a new version where there are too many:
// once the desired one is installed, those before it go. Until then the oldest one goes that
// newer ones have taken everything over from, so that nothing has to be removed for it.
func (r *Reconciler) makeRoom(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) status.Outcome {
	var outcome status.Outcome
	if cluster.Status.Settled() {
		outcome = r.retire(ctx, cluster, existing)
	} else {
		outcome = r.retireEmpty(ctx, cluster, existing)
	}
	if outcome.Err == nil {
		outcome = status.Outcome{Reason: status.RetiringRevisions, Message: "removing older versions, to make room for a new one"}
	}
	return outcome
}

// retireEmpty retires one version that has nothing in the cluster.
func (r *Reconciler) retireEmpty(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) status.Outcome {
	for _, version := range cluster.Status.Versions { // the oldest first
		if version.Name == cluster.Status.CurrentVersion || version.Name == cluster.Status.DesiredVersion || len(version.Phases) > 0 {
			continue
		}
		var err error
		if found := named(existing, version.Name); found == nil {
			err = r.forget(ctx, cluster, existing)
		} else if found.DeletionTimestamp.IsZero() {
			log.FromContext(ctx).Info("Retiring a version that has nothing in the cluster", "version", version.Name, "desired", cluster.Status.DesiredVersion)
			err = client.IgnoreNotFound(r.Client.Delete(ctx, found))
		}
		if err != nil {
			return status.Outcome{Reason: status.WriteFailed, Err: fmt.Errorf("retiring version %s: %w", version.Name, err)}
		}
		return status.Outcome{}
	}
	return status.Outcome{Reason: status.TooManyRevisions, Err: fmt.Errorf(
		"%d versions are kept, which is the most, and each has objects that no newer one has; version %s must be installed before another one can be made",
		maxVersions, cluster.Status.DesiredVersion)}
}

// number gives the new version its name and number: those of a ConfigMap that
// holds the same objects and that no version names yet, or else the next ones.
func (r *Reconciler) number(versions []v1alpha1.Version, stored revision.Stored, existing []corev1.ConfigMap) (string, int64, error) {
	history := slices.Clone(versions)
	for _, configMap := range existing {
		number := numberOf(configMap)
		if number == 0 || slices.ContainsFunc(versions, func(v v1alpha1.Version) bool { return v.Name == configMap.Name }) {
			continue
		}
		history = append(history, v1alpha1.Version{Name: configMap.Name, Revision: number})
	}
	name, number, err := revision.Next(history, r.Release)
	if err != nil {
		return "", 0, err
	}
	if last := newest(history); last != nil && last.ManifestsDigest == "" && last.Name == fmt.Sprintf("%s-%d", r.Release, last.Revision) {
		if left := named(existing, last.Name); left.DeletionTimestamp.IsZero() && left.Annotations[v1alpha1.ManifestsDigestAnnotation] == stored.Digest.String() {
			return last.Name, last.Revision, nil
		}
	}
	return name, number, nil
}

// numberOf is the number of the version that a ConfigMap is the first part of; 0
// if it is none, whatever labels it has.
func numberOf(configMap corev1.ConfigMap) int64 {
	if configMap.Labels[v1alpha1.RevisionLabel] != configMap.Name {
		return 0
	}
	number, err := revision.Number(configMap.Name)
	if err != nil {
		return 0
	}
	return number
}

func newest(versions []v1alpha1.Version) *v1alpha1.Version {
	if len(versions) == 0 {
		return nil
	}
	last := slices.MaxFunc(versions, func(a, b v1alpha1.Version) int { return cmp.Compare(a.Revision, b.Revision) })
	return &last
}

// retire deletes the revision ConfigMaps of versions that are no longer wanted,
// once the desired version is installed, and forgets those that are gone. The
// finalizer on them has the installer controller remove their objects first.
func (r *Reconciler) retire(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) status.Outcome {
	if !cluster.Status.Settled() {
		return rollingOut(cluster.Status.DesiredVersion)
	}
	leaving := 0
	for i := range existing {
		if numberOf(existing[i]) == 0 || existing[i].Name == cluster.Status.CurrentVersion {
			continue
		}
		leaving++
		if !existing[i].DeletionTimestamp.IsZero() {
			continue
		}
		log.FromContext(ctx).Info("Retiring a version", "version", existing[i].Name, "current", cluster.Status.CurrentVersion)
		if err := r.Client.Delete(ctx, &existing[i]); client.IgnoreNotFound(err) != nil {
			return status.Outcome{Reason: status.WriteFailed, Err: fmt.Errorf("deleting revision ConfigMap %s: %w", existing[i].Name, err)}
		}
	}
	if err := r.forget(ctx, cluster, existing); err != nil {
		return status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	if leaving > 0 {
		return status.Outcome{Reason: status.RetiringRevisions, Message: fmt.Sprintf("removing %d older version(s)", leaving), ReleaseInstalled: true}
	}
	return status.Outcome{Reason: status.AsExpected, ReleaseInstalled: true}
}

// forget drops the entries of versions whose ConfigMap is gone.
func (r *Reconciler) forget(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) error {
	gone := func(v v1alpha1.Version) bool {
		return v.Name != cluster.Status.CurrentVersion && named(existing, v.Name) == nil
	}
	if !slices.ContainsFunc(cluster.Status.Versions, gone) {
		return nil
	}
	_, err := r.Reporter.Update(ctx, func(s *v1alpha1.ClusterAPIStatus) {
		s.Versions = slices.DeleteFunc(s.Versions, func(v v1alpha1.Version) bool {
			return v.Name != s.CurrentVersion && v.Name != s.DesiredVersion && gone(v)
		})
	})
	return err
}
