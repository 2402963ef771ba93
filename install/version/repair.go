// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// repair recreates deleted or modified ConfigMaps of the desired and of
// the current version, and reports whether it wrote any. Until then the finalizer
// of a deleted ConfigMap preserves its content. If the process ends between the
// removal of the finalizer and the creation, decide renders the version again from
// its inputs.
func (s storage) repair(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) (wrote bool, err error) {
	for _, name := range slices.Compact([]string{cluster.Status.CurrentVersion, cluster.Status.DesiredVersion}) {
		version := cluster.Status.Version(name)
		if version == nil || !isReadable(*version, existing) {
			continue
		}
		stored, err := revision.FromConfigMaps(name, existing)
		if err != nil || s.isIntact(cluster, *version, stored, existing) {
			continue
		}
		secrets, err := s.formerSecrets(ctx, name) // they get the new ConfigMap as their owner
		if err != nil {
			return wrote, err
		}
		wrote = true
		log.FromContext(ctx).Info("Repairing the revision ConfigMaps of a version", "version", name)
		if err := s.store(ctx, cluster, *version, stored, secrets, true); err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// checkOwner returns an error unless the ClusterAPI object, the owner of the
// revision ConfigMaps, still exists and is not being deleted. It reads the object
// again before ConfigMaps are written, because pulling images may have taken long.
func (s storage) checkOwner(ctx context.Context, owner *v1alpha1.ClusterAPI) error {
	cluster := &v1alpha1.ClusterAPI{}
	if err := s.live.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
		return fmt.Errorf("reading ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	if !cluster.DeletionTimestamp.IsZero() || cluster.UID != owner.UID {
		return fmt.Errorf("ClusterAPI %q is being deleted", v1alpha1.ClusterAPIName)
	}
	return nil
}

// isReadable reports whether the ConfigMaps of a version exist and have its digest.
func isReadable(version v1alpha1.Version, existing []corev1.ConfigMap) bool {
	stored, err := revision.FromConfigMaps(version.Name, existing)
	return err == nil && stored.Digest.String() == string(version.ManifestsDigest)
}

// isIntact reports whether all ConfigMaps of a version are as they were created.
func (s storage) isIntact(cluster *v1alpha1.ClusterAPI, version v1alpha1.Version, stored revision.Stored, existing []corev1.ConfigMap) bool {
	configMaps := s.configMapsOf(cluster, version, stored)
	for i, wanted := range configMaps {
		found := named(existing, wanted.Name)
		if found == nil || !found.DeletionTimestamp.IsZero() || !sameData(found, wanted) {
			return false
		}
		if i > 0 {
			revision.SetOwner(wanted, named(existing, configMaps[0].Name))
		}
		if changed := withMetadata(found, wanted); !equality.Semantic.DeepEqual(changed.ObjectMeta, found.ObjectMeta) {
			return false
		}
	}
	return true
}

// recreateBackoff covers a short failure of the API server between the deletion of
// a ConfigMap and its recreation, while only memory holds its content.
var recreateBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 7}

// recreate creates a ConfigMap and retries all errors for about ten seconds.
func (s storage) recreate(ctx context.Context, wanted *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	var created *corev1.ConfigMap
	always := func(error) bool { return ctx.Err() == nil }
	err := retry.OnError(recreateBackoff, always, func() error {
		created = wanted.DeepCopy()
		return s.client.Create(ctx, created)
	})
	return created, err
}

// deleteWithoutTeardown deletes a ConfigMap but not the objects of its version.
func (s storage) deleteWithoutTeardown(ctx context.Context, configMap *corev1.ConfigMap) error {
	if configMap.DeletionTimestamp.IsZero() {
		if err := s.client.Delete(ctx, configMap, client.Preconditions(object.AsRead(configMap))); err != nil {
			return client.IgnoreNotFound(err)
		}
		if err := s.live.Get(ctx, client.ObjectKeyFromObject(configMap), configMap); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	before := configMap.DeepCopy()
	controllerutil.RemoveFinalizer(configMap, v1alpha1.TeardownFinalizer)
	return client.IgnoreNotFound(s.client.Patch(ctx, configMap, client.MergeFrom(before)))
}
