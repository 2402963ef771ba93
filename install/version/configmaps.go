// SPDX-License-Identifier: Apache-2.0

package version

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/masking"
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
