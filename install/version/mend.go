// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

// mend puts the ConfigMaps of the desired and of the current version right, and
// says whether it has written anything. One that somebody deletes stays until then,
// because of its finalizer, with what it holds: it is let go and created again. If
// that is interrupted, what it held is remembered; after a restart in between, the desired
// version is made again from its inputs.
func (r *Reconciler) mend(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) (wrote bool, err error) {
	for _, name := range slices.Compact([]string{cluster.Status.CurrentVersion, cluster.Status.DesiredVersion}) {
		version := cluster.Status.Version(name)
		if version == nil {
			continue
		}
		stored, known := r.stored(*version, existing)
		if !known || r.sound(cluster, *version, stored, existing) {
			delete(r.rescued, name)
			continue
		}
		if err := r.remains(ctx); err != nil {
			return wrote, err
		}
		if r.rescued == nil {
			r.rescued = map[string]revision.Stored{}
		}
		r.rescued[name], wrote = stored, true
		log.FromContext(ctx).Info("Mending the revision ConfigMaps of a version", "version", name)
		if err := r.store(ctx, cluster, *version, stored, true); err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// stored returns what the ConfigMaps of a version hold, or held, if it is what the status says.
func (r *Reconciler) stored(version v1alpha1.Version, existing []corev1.ConfigMap) (revision.Stored, bool) {
	stored, err := revision.FromConfigMaps(version.Name, existing)
	if err == nil && stored.Digest.String() == string(version.ManifestsDigest) {
		return stored, true
	}
	stored, known := r.rescued[version.Name]
	return stored, known
}

// remains returns an error if the ClusterAPI object is about to go, and its
// revision ConfigMaps with it.
func (r *Reconciler) remains(ctx context.Context) error {
	cluster := &v1alpha1.ClusterAPI{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
		return fmt.Errorf("reading ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	if !cluster.DeletionTimestamp.IsZero() {
		return fmt.Errorf("ClusterAPI %q is being deleted", v1alpha1.ClusterAPIName)
	}
	return nil
}

// sound says whether all ConfigMaps of a version are there and as they were created.
func (r *Reconciler) sound(cluster *v1alpha1.ClusterAPI, version v1alpha1.Version, stored revision.Stored, existing []corev1.ConfigMap) bool {
	configMaps := configMapsOf(cluster, version, stored)
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

func sameData(a, b *corev1.ConfigMap) bool {
	return equality.Semantic.DeepEqual(a.BinaryData, b.BinaryData) && equality.Semantic.DeepEqual(a.Data, b.Data) &&
		equality.Semantic.DeepEqual(a.Immutable, b.Immutable)
}

// withMetadata is a ConfigMap with everything that the wanted one says of itself;
// what others have written besides stays.
func withMetadata(found, wanted *corev1.ConfigMap) *corev1.ConfigMap {
	changed := found.DeepCopy()
	changed.Labels, changed.Annotations = merged(found.Labels, wanted.Labels), merged(found.Annotations, wanted.Annotations)
	changed.OwnerReferences = wanted.OwnerReferences
	for _, finalizer := range wanted.Finalizers {
		if !slices.Contains(changed.Finalizers, finalizer) {
			changed.Finalizers = append(changed.Finalizers, finalizer)
		}
	}
	return changed
}

func merged(found, wanted map[string]string) map[string]string {
	if len(wanted) == 0 {
		return found
	}
	all := maps.Clone(wanted)
	for key, value := range found {
		if _, ours := wanted[key]; !ours {
			all[key] = value
		}
	}
	return all
}

// configMapsOf are the ConfigMaps of a version as they should be; the further
// ones have no owner yet.
func configMapsOf(cluster *v1alpha1.ClusterAPI, version v1alpha1.Version, stored revision.Stored) []*corev1.ConfigMap {
	owner := *metav1.NewControllerRef(cluster, v1alpha1.GroupVersion.WithKind("ClusterAPI"))
	configMaps := revision.ConfigMaps(version.Name, owner, stored)
	if version.InstalledAs != "" {
		configMaps[0].Annotations[v1alpha1.InstalledAsAnnotation] = version.InstalledAs
	}
	return configMaps
}

// store makes sure that the ConfigMaps of a version exist. Those that hold
// something else, or are being deleted, are only replaced if the version is known to be ours.
func (r *Reconciler) store(ctx context.Context, cluster *v1alpha1.ClusterAPI, version v1alpha1.Version, stored revision.Stored, replace bool) error {
	configMaps := configMapsOf(cluster, version, stored)
	for i, configMap := range configMaps {
		if i > 0 {
			revision.SetOwner(configMap, configMaps[0])
		}
		created, err := r.put(ctx, configMap, replace)
		if err != nil {
			return fmt.Errorf("writing revision ConfigMap %s/%s: %w", configMap.Namespace, configMap.Name, err)
		}
		configMaps[i] = created
	}
	log.FromContext(ctx).Info("Stored a version", "version", version.Name, "configMaps", len(configMaps), "digest", stored.Digest)
	return nil
}

// errOther is what put returns for a ConfigMap that it may not replace.
var errOther = errors.New("it exists and holds something else; delete it if nobody needs it")

// put creates a ConfigMap, or takes the one that is there if it holds the same,
// and returns it. It may take a moment until one that is replaced is gone; that is an error.
func (r *Reconciler) put(ctx context.Context, wanted *corev1.ConfigMap, replace bool) (*corev1.ConfigMap, error) {
	created := wanted.DeepCopy()
	err := r.Client.Create(ctx, created)
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	found := &corev1.ConfigMap{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), found); err != nil {
		return nil, err
	}
	if sameData(found, wanted) && found.DeletionTimestamp.IsZero() {
		changed := withMetadata(found, wanted)
		if equality.Semantic.DeepEqual(changed.ObjectMeta, found.ObjectMeta) {
			return found, nil
		}
		return changed, r.Client.Update(ctx, changed)
	}
	if !replace {
		return nil, errOther
	}
	if err := r.letGo(ctx, found); err != nil {
		return nil, err
	}
	created = wanted.DeepCopy()
	return created, r.Client.Create(ctx, created)
}

// letGo deletes a ConfigMap without having its objects removed.
func (r *Reconciler) letGo(ctx context.Context, configMap *corev1.ConfigMap) error {
	if configMap.DeletionTimestamp.IsZero() {
		precondition := client.Preconditions{UID: &configMap.UID, ResourceVersion: &configMap.ResourceVersion}
		if err := r.Client.Delete(ctx, configMap, precondition); err != nil {
			return client.IgnoreNotFound(err)
		}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(configMap), configMap); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	before := configMap.DeepCopy()
	configMap.Finalizers = slices.DeleteFunc(configMap.Finalizers, func(f string) bool { return f == v1alpha1.TeardownFinalizer })
	return client.IgnoreNotFound(r.Client.Patch(ctx, configMap, client.MergeFrom(before)))
}
