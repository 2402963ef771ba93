// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
)

// maxVersions is the limit of entries in status.versions.
const maxVersions = 16

// retirement removes older versions.
type retirement struct{ writer client.Writer }

// evict removes older versions if the limit is reached. Once the desired version is
// installed, it removes all of them. Until then, it evicts the oldest version whose
// objects were all adopted by newer versions, so that no object is deleted. If there is
// none, it evicts the oldest version that was never complete: the installer controller
// deletes its objects if no other version has them.
func (r retirement) evict(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) status.Outcome {
	var outcome status.Outcome
	if cluster.Status.Settled() {
		outcome = r.retire(ctx, cluster, existing)
	} else {
		outcome = r.evictOne(ctx, cluster, existing)
	}
	if outcome.Err == nil {
		outcome = status.Outcome{Reason: reason.RetiringRevisions, Message: "removing an older version, because the limit of versions is reached", Change: outcome.Change}
	}
	return outcome
}

// evictOne evicts one version.
func (r retirement) evictOne(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) status.Outcome {
	version := evictable(cluster.Status, func(name string) bool {
		found := named(existing, name)
		return found != nil && !found.DeletionTimestamp.IsZero()
	})
	if version == "" {
		return failure(reason.TooManyRevisions, fmt.Errorf(
			"the limit of %d versions is reached, and each is being removed or has objects that other versions need; version %s must be installed before a new version can be created",
			maxVersions, cluster.Status.DesiredVersion))
	}
	if found := named(existing, version); found != nil && found.DeletionTimestamp.IsZero() {
		log.FromContext(ctx).Info("Evicting version", "version", version, "desired", cluster.Status.DesiredVersion)
		if err := r.writer.Delete(ctx, found); client.IgnoreNotFound(err) != nil {
			return failure(reason.WriteFailed, fmt.Errorf("evicting version %s: %w", version, err))
		}
	}
	return status.Outcome{Change: dropEntries(existing)}
}

// evictable returns the oldest version that controls no objects, or else the oldest one that was never complete and whose
// ConfigMap is not deleted yet; neither is the current or the desired version. It is empty if there is none.
func evictable(s v1alpha1.ClusterAPIStatus, isDeleted func(name string) bool) string {
	incomplete, installed := "", s.Version(s.CurrentVersion)
	for _, version := range s.Versions { // oldest first
		switch {
		case version.Name == s.CurrentVersion, version.Name == s.DesiredVersion:
		case len(version.Phases) == 0:
			return version.Name
		case incomplete == "" && !isDeleted(version.Name) && (installed == nil || version.Revision > installed.Revision):
			incomplete = version.Name
		}
	}
	return incomplete
}

// retire deletes the revision ConfigMaps of older versions once the desired version is
// installed, and drops the entries of those that are gone. Their finalizer makes the
// installer controller remove their objects first.
func (r retirement) retire(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) status.Outcome {
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
		if err := r.writer.Delete(ctx, &existing[i]); client.IgnoreNotFound(err) != nil {
			return failure(reason.WriteFailed, fmt.Errorf("deleting revision ConfigMap %s: %w", existing[i].Name, err))
		}
	}
	if retiring > 0 {
		return status.Outcome{Reason: reason.RetiringRevisions, Message: fmt.Sprintf("removing %d older version(s)", retiring), ReleaseInstalled: true, Change: dropEntries(existing)}
	}
	return status.Outcome{Reason: reason.AsExpected, ReleaseInstalled: true, Change: dropEntries(existing)}
}

// dropEntries returns the change that drops the entries of versions whose ConfigMap is gone.
func dropEntries(existing []corev1.ConfigMap) func(*v1alpha1.ClusterAPIStatus) {
	return func(s *v1alpha1.ClusterAPIStatus) {
		s.Versions = slices.DeleteFunc(s.Versions, func(v v1alpha1.Version) bool {
			return v.Name != s.CurrentVersion && v.Name != s.DesiredVersion && named(existing, v.Name) == nil
		})
	}
}
