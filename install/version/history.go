// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/history"
)

// recordHistory records the desired version in the ConfigMap with the history. files are the inputs of the desired version if used is
// true. It writes only at a transition, so it is quiet at rest.
func (r *Reconciler) recordHistory(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap, files releaseFiles, used bool) error {
	found, recorded := named(existing, history.ConfigMapName), (*corev1.ConfigMap)(nil)
	if found != nil && metav1.IsControlledBy(found, cluster) { // another object's history has the same names of versions
		recorded = found
	}
	if !cluster.DeletionTimestamp.IsZero() || history.Ended(recorded, cluster.Status.DesiredVersion) {
		return nil
	}
	seen := history.Observation{Status: cluster.Status, Now: metav1.Now().Rfc3339Copy()}
	if revision := named(existing, cluster.Status.DesiredVersion); revision != nil {
		seen.Started = revision.CreationTimestamp
	}
	if used {
		seen.Release, seen.ImagesJSON = files.version, string(files.images)
	}
	changed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespaces.Operator, Name: history.ConfigMapName}}
	if found != nil {
		changed = found.DeepCopy()
	}
	changed.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cluster, v1alpha1.GroupVersion.WithKind("ClusterAPI"))}
	changed.Data = history.Data(history.Record(history.Parse(recorded), seen))
	if len(changed.Data) == 0 || recorded != nil && maps.Equal(recorded.Data, changed.Data) {
		return nil
	}
	err := error(nil)
	if found == nil {
		err = r.Client.Create(ctx, changed)
	} else {
		err = r.Client.Update(ctx, changed)
	}
	if err != nil {
		return fmt.Errorf("writing the history to ConfigMap %s/%s: %w", r.Namespaces.Operator, history.ConfigMapName, err)
	}
	return nil
}
