// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
)

// add creates a new version: first the revision ConfigMap, then the status, so that
// every version in the status can be read. If the process ends in between, the next
// reconcile finds the ConfigMap and uses it.
func (r *Reconciler) add(ctx context.Context, release string, cluster *v1alpha1.ClusterAPI, set operand.Set, inputs inputs, existing []corev1.ConfigMap) status.Outcome {
	set, installedAs := inherit(cluster, set, inputs, existing)
	stored, err := revision.Encode(set)
	if err != nil {
		return status.Outcome{Reason: reason.RenderFailed, Err: err}
	}
	if len(cluster.Status.Versions) >= maxVersions {
		return retirement{r.Client}.evict(ctx, cluster, existing)
	}
	numbered, err := r.Official.Revisions(ctx)
	if err != nil {
		return status.Outcome{Reason: reason.WriteFailed, Err: err}
	}
	name, number, err := nextVersion(release, cluster.Status.Versions, numbered, stored, existing)
	if err != nil {
		return status.Outcome{Reason: reason.ImagesInvalid, Err: err}
	}
	version := v1alpha1.Version{
		Name: name, Revision: number,
		InstalledAs:     installedAs,
		ContentID:       v1alpha1.Digest(set.ContentID),
		ManifestsDigest: v1alpha1.Digest(stored.Digest),
		UnmanagedCRDs:   slices.Clone(cluster.Spec.UnmanagedCRDs),
		Components:      set.Components(),
	}
	if err := r.storage().store(ctx, cluster, version, stored, inputs.Settings.Secrets, false); err != nil {
		return status.Outcome{Reason: reason.WriteFailed, Err: err}
	}
	log.FromContext(ctx).Info("New desired version", "version", name, "installedAs", version.InstalledAs,
		"contentID", set.ContentID, "components", len(set.Operands))
	outcome := rollingOut(name)
	outcome.Change = func(s *v1alpha1.ClusterAPIStatus) {
		if s.Version(name) == nil {
			s.Versions = append(s.Versions, version)
		}
		s.DesiredVersion = name
	}
	return outcome
}
