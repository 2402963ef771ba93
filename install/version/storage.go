// SPDX-License-Identifier: Apache-2.0

package version

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/history"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/object"
)

// storage keeps versions in ConfigMaps, and the values of their Secrets in Secrets.
type storage struct {
	client client.Client
	live   client.Reader
	// namespace is the namespace of the installer.
	namespace string
	// mask learns the values of Secrets.
	mask *masking.Mask
}

// configMapsOf returns the ConfigMaps of a version. Only the first one has an owner
// yet.
func (s storage) configMapsOf(cluster *v1alpha1.ClusterAPI, version v1alpha1.Version, stored revision.Stored) []*corev1.ConfigMap {
	owner := *metav1.NewControllerRef(cluster, v1alpha1.GroupVersion.WithKind("ClusterAPI"))
	configMaps := revision.ConfigMaps(s.namespace, version.Name, owner, stored)
	if version.InstalledAs != "" {
		configMaps[0].Annotations[v1alpha1.InstalledAsAnnotation] = version.InstalledAs
	}
	return configMaps
}

// store creates the ConfigMaps of a version. It replaces those that have other
// content or are being deleted only if replace is set, because the version is then
// known to be ours.
func (s storage) store(ctx context.Context, cluster *v1alpha1.ClusterAPI, version v1alpha1.Version, stored revision.Stored, secrets setting.Secrets, replace bool) error {
	if err := s.checkOwner(ctx, cluster); err != nil {
		return err
	}
	configMaps := s.configMapsOf(cluster, version, stored)
	for i, configMap := range configMaps {
		if i > 0 {
			revision.SetOwner(configMap, configMaps[0])
		}
		created, err := s.put(ctx, configMap, replace)
		if err != nil {
			return fmt.Errorf("writing revision ConfigMap %s/%s: %w", configMap.Namespace, configMap.Name, err)
		}
		configMaps[i] = created
	}
	if err := s.putSecret(ctx, revision.Secret(configMaps[0], secrets)); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Stored version", "version", version.Name, "configMaps", len(configMaps), "digest", stored.Digest)
	return nil
}

// putSecret creates the Secret of a version, and replaces one with other data: it belongs to a version of the same name that was never
// installed, or was modified. nil does nothing.
func (s storage) putSecret(ctx context.Context, wanted *corev1.Secret) error {
	if wanted == nil {
		return nil
	}
	err := s.client.Create(ctx, wanted.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		found := &corev1.Secret{}
		err = s.live.Get(ctx, client.ObjectKeyFromObject(wanted), found)
		if err == nil && maps.EqualFunc(found.Data, wanted.Data, bytes.Equal) && equality.Semantic.DeepEqual(found.OwnerReferences, wanted.OwnerReferences) {
			return nil
		}
		if err == nil {
			err = s.client.Delete(ctx, found, client.Preconditions(object.AsRead(found)))
		}
		if err == nil {
			err = s.client.Create(ctx, wanted)
		}
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	return nil
}

// formerSecrets returns the values in the Secret of a version; none if there is no such Secret, or if another actor has modified it. It
// reads from the API server: without the Secret of the desired version, each reconcile would make a new version.
func (s storage) formerSecrets(ctx context.Context, version string) (setting.Secrets, error) {
	if version == "" {
		return setting.Secrets{}, nil
	}
	secret := &corev1.Secret{}
	err := s.live.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: version}, secret)
	if apierrors.IsNotFound(err) || err == nil && secret.Labels[v1alpha1.RevisionPartLabel] != version {
		return setting.Secrets{}, nil
	}
	if err != nil {
		return setting.Secrets{}, fmt.Errorf("reading Secret %s/%s: %w", s.namespace, version, err)
	}
	former, err := revision.SecretsOf(version, []corev1.Secret{*secret})
	if err != nil {
		return setting.Secrets{}, nil //nolint:nilerr // a new version has another one
	}
	s.mask.Add(former.Values)
	return former, nil
}

// errForeign is the error of put for a ConfigMap that it may not replace.
var errForeign = errors.New("already exists with other content; delete it if it is not needed")

// put creates a ConfigMap and returns it. An existing one with the same data gets the
// missing metadata; one with other data is replaced if replace is set.
func (s storage) put(ctx context.Context, wanted *corev1.ConfigMap, replace bool) (*corev1.ConfigMap, error) {
	created := wanted.DeepCopy()
	err := s.client.Create(ctx, created)
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	found := &corev1.ConfigMap{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(wanted), found); err != nil {
		return nil, err
	}
	if sameData(found, wanted) && found.DeletionTimestamp.IsZero() {
		changed := withMetadata(found, wanted)
		if equality.Semantic.DeepEqual(changed.ObjectMeta, found.ObjectMeta) {
			return found, nil
		}
		return changed, s.client.Update(ctx, changed)
	}
	if !replace {
		return nil, errForeign
	}
	if err := s.deleteWithoutTeardown(ctx, found); err != nil {
		return nil, err
	}
	return s.recreate(ctx, wanted)
}

// named returns the ConfigMap with a name, nil if there is none.
func named(configMaps []corev1.ConfigMap, name string) *corev1.ConfigMap {
	at := slices.IndexFunc(configMaps, func(c corev1.ConfigMap) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return &configMaps[at]
}

func sameData(a, b *corev1.ConfigMap) bool {
	return maps.EqualFunc(a.BinaryData, b.BinaryData, bytes.Equal) && maps.Equal(a.Data, b.Data) &&
		equality.Semantic.DeepEqual(a.Immutable, b.Immutable)
}

// withMetadata returns a copy of found with the metadata of wanted. Other labels,
// annotations and finalizers stay.
func withMetadata(found, wanted *corev1.ConfigMap) *corev1.ConfigMap {
	changed := found.DeepCopy()
	changed.Labels, changed.Annotations = labels.Merge(found.Labels, wanted.Labels), labels.Merge(found.Annotations, wanted.Annotations)
	changed.OwnerReferences = wanted.OwnerReferences
	for _, finalizer := range wanted.Finalizers {
		controllerutil.AddFinalizer(changed, finalizer)
	}
	return changed
}

// repair recreates deleted or modified ConfigMaps of the desired and of
// the current version, and reports whether it wrote any. Until then the finalizer
// of a deleted ConfigMap preserves its content. If the process ends between the
// removal of the finalizer and the creation, decide renders the desired version again
// from its inputs. Nothing can render a current version that is being replaced, so its
// deleted ConfigMaps stay as they are until its objects are removed.
func (s storage) repair(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap) (wrote bool, err error) {
	for _, name := range slices.Compact([]string{cluster.Status.CurrentVersion, cluster.Status.DesiredVersion}) {
		version := cluster.Status.Version(name)
		if version == nil {
			continue
		}
		stored, readable := storedIn(existing, *version)
		replaced := name != cluster.Status.DesiredVersion && slices.ContainsFunc(existing, func(c corev1.ConfigMap) bool {
			return !c.DeletionTimestamp.IsZero() && revision.VersionOf(c) == name
		})
		if !readable || replaced || s.isIntact(cluster, *version, stored, existing) {
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

// storedIn returns the stored form of a version, and reports whether its ConfigMaps exist and have its digest.
func storedIn(existing []corev1.ConfigMap, version v1alpha1.Version) (stored revision.Stored, readable bool) {
	stored, err := revision.FromConfigMaps(version.Name, existing)
	return stored, err == nil && stored.Digest.String() == string(version.ManifestsDigest)
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

// knownPlatforms returns the platforms of images from the annotations of revision
// ConfigMaps. It ignores invalid annotations, because they are needed only while an
// image cannot be read.
func knownPlatforms(existing []corev1.ConfigMap) operand.ImagePlatforms {
	all := operand.ImagePlatforms{}
	for _, configMap := range existing {
		var platforms operand.ImagePlatforms
		if numberOf(configMap) > 0 && json.Unmarshal([]byte(configMap.Annotations[v1alpha1.ElsewhereAnnotation]), &platforms) == nil {
			maps.Copy(all, platforms)
		}
	}
	return all
}

// encodePlatforms returns the value of the annotation; empty without platforms.
func encodePlatforms(platforms operand.ImagePlatforms) (string, error) {
	if len(platforms) == 0 {
		return "", nil
	}
	encoded, err := json.Marshal(platforms)
	return string(encoded), err
}

// annotatePlatforms writes the platforms of the release's other images on a revision
// ConfigMap, if they changed.
func (s storage) annotatePlatforms(ctx context.Context, configMap *corev1.ConfigMap, platforms operand.ImagePlatforms) error {
	text, err := encodePlatforms(platforms)
	if configMap == nil || err != nil || configMap.Annotations[v1alpha1.ElsewhereAnnotation] == text {
		return err
	}
	changed := configMap.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[v1alpha1.ElsewhereAnnotation] = text
	if err := s.client.Patch(ctx, changed, client.MergeFrom(configMap)); err != nil {
		return fmt.Errorf("annotating revision ConfigMap %s with the platforms of images: %w", configMap.Name, err)
	}
	return nil
}

// recordHistory records the desired version in the ConfigMap with the history. files are the inputs of the desired version if used is
// true. It writes only at a transition, so it is quiet at rest.
func (r *Reconciler) recordHistory(ctx context.Context, cluster *v1alpha1.ClusterAPI, existing []corev1.ConfigMap, files releaseFiles, used bool) error {
	desired := cluster.Status.DesiredVersion
	if cluster.Status.Version(desired) == nil || !cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	seen := history.Observation{Status: cluster.Status, Now: metav1.Now().Rfc3339Copy()}
	if revision := named(existing, desired); revision != nil {
		seen.Started = revision.CreationTimestamp
	}
	if used {
		seen.Release, seen.ImagesJSON = files.version, string(files.images)
	}
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespaces.Operator, Name: history.ConfigMapName}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, record, func() error {
		if !metav1.IsControlledBy(record, cluster) { // another object's history has the same names of versions
			record.Data, record.OwnerReferences = nil, []metav1.OwnerReference{*metav1.NewControllerRef(cluster, v1alpha1.GroupVersion.WithKind("ClusterAPI"))}
		}
		if !history.Ended(record, desired) {
			record.Data = history.Data(history.Record(history.Parse(record), seen))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing the history to ConfigMap %s/%s: %w", record.Namespace, record.Name, err)
	}
	return nil
}
