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

// add creates a new version: first the revision ConfigMap, then the status, so that
// every version in the status can be read. If the process ends in between, the next
// reconcile finds the ConfigMap and uses it.
func (r *Reconciler) add(ctx context.Context, cluster *v1alpha1.ClusterAPI, set operand.Set, stored revision.Stored, existing []corev1.ConfigMap) status.Outcome {
	if len(cluster.Status.Versions) >= maxVersions {
		return r.evict(ctx, cluster, existing)
	}
	numbered, err := r.Official.Revisions(ctx)
	if err != nil {
		return status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	name, number, err := nextVersion(r.Release, cluster.Status.Versions, numbered, stored, existing)
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

// maxVersions is the limit of entries in status.versions.
const maxVersions = 16

// evict removes older versions if the limit is reached. Once the desired version is
// installed, it removes all of them. Until then, it evicts the oldest version whose
// objects were all adopted by newer versions, so that no object is deleted.
func (r *Reconciler) evict(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) status.Outcome {
	var outcome status.Outcome
	if cluster.Status.Settled() {
		outcome = r.retire(ctx, cluster, existing)
	} else {
		outcome = r.evictOne(ctx, cluster, existing)
	}
	if outcome.Err == nil {
		outcome = status.Outcome{Reason: status.RetiringRevisions, Message: "removing an older version, because the limit of versions is reached"}
	}
	return outcome
}

// evictOne evicts the oldest version that controls no objects.
func (r *Reconciler) evictOne(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) status.Outcome {
	version := evictable(cluster.Status)
	if version == "" {
		return status.Outcome{Reason: status.TooManyRevisions, Err: fmt.Errorf(
			"the limit of %d versions is reached and each has objects that no newer version has adopted; version %s must be installed before a new version can be created",
			maxVersions, cluster.Status.DesiredVersion)}
	}
	var err error
	if found := named(existing, version); found == nil {
		err = r.dropEntries(ctx, cluster, existing)
	} else if found.DeletionTimestamp.IsZero() {
		log.FromContext(ctx).Info("Evicting version without objects", "version", version, "desired", cluster.Status.DesiredVersion)
		err = client.IgnoreNotFound(r.Client.Delete(ctx, found))
	}
	if err != nil {
		return status.Outcome{Reason: status.WriteFailed, Err: fmt.Errorf("evicting version %s: %w", version, err)}
	}
	return status.Outcome{}
}

// evictable returns the oldest version that controls no objects and is neither the
// current nor the desired version; empty if there is none.
func evictable(s v1alpha1.ClusterAPIStatus) string {
	for _, version := range s.Versions { // oldest first
		if version.Name != s.CurrentVersion && version.Name != s.DesiredVersion && len(version.Phases) == 0 {
			return version.Name
		}
	}
	return ""
}

// nextVersion returns the name and the number of the new version: those of a
// ConfigMap that has the same objects and no entry in the status yet, or else the
// next ones. numbered are further versions whose numbers are taken, from the status
// of OpenShift's own ClusterAPI object.
func nextVersion(release string, versions, numbered []v1alpha1.Version, stored revision.Stored, existing []corev1.ConfigMap) (string, int64, error) {
	history := slices.Concat(versions, numbered)
	for _, configMap := range existing {
		number := numberOf(configMap)
		if number == 0 || slices.ContainsFunc(versions, func(v v1alpha1.Version) bool { return v.Name == configMap.Name }) {
			continue
		}
		history = append(history, v1alpha1.Version{Name: configMap.Name, Revision: number})
	}
	name, number, err := revision.Next(history, release)
	if err != nil {
		return "", 0, err
	}
	if last := newest(history); last != nil && last.ManifestsDigest == "" && last.Name == fmt.Sprintf("%s-%d", release, last.Revision) {
		if left := named(existing, last.Name); left != nil && left.DeletionTimestamp.IsZero() && left.Annotations[v1alpha1.ManifestsDigestAnnotation] == stored.Digest.String() {
			return last.Name, last.Revision, nil
		}
	}
	return name, number, nil
}

// numberOf returns the revision number of the version whose first ConfigMap this is; 0
// if it is not one.
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

// retire deletes the revision ConfigMaps of older versions once the desired version is
// installed, and drops the entries of those that are gone. Their finalizer makes the
// installer controller remove their objects first.
func (r *Reconciler) retire(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) status.Outcome {
	if !cluster.Status.Settled() {
		return rollingOut(cluster.Status.DesiredVersion)
	}
	retiring := 0
	for i := range existing {
		if numberOf(existing[i]) == 0 || existing[i].Name == cluster.Status.CurrentVersion {
			continue
		}
		retiring++
		if !existing[i].DeletionTimestamp.IsZero() {
			continue
		}
		log.FromContext(ctx).Info("Retiring version", "version", existing[i].Name, "current", cluster.Status.CurrentVersion)
		if err := r.Client.Delete(ctx, &existing[i]); client.IgnoreNotFound(err) != nil {
			return status.Outcome{Reason: status.WriteFailed, Err: fmt.Errorf("deleting revision ConfigMap %s: %w", existing[i].Name, err)}
		}
	}
	if err := r.dropEntries(ctx, cluster, existing); err != nil {
		return status.Outcome{Reason: status.WriteFailed, Err: err}
	}
	if retiring > 0 {
		return status.Outcome{Reason: status.RetiringRevisions, Message: fmt.Sprintf("removing %d older version(s)", retiring), ReleaseInstalled: true}
	}
	return status.Outcome{Reason: status.AsExpected, ReleaseInstalled: true}
}

// dropEntries drops the entries of versions whose ConfigMap is gone.
func (r *Reconciler) dropEntries(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) error {
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
