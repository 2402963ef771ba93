// SPDX-License-Identifier: Apache-2.0

// Package snapshot reads the state behind the decisions of both controllers,
// consistently: the ClusterAPI object and the revision ConfigMaps.
//
// A cache can be stale, for a moment or, after a restart, for long. A controller that
// decides on stale data could recreate the objects of a version that is already
// removed. Read returns the state of the API server. The ConfigMaps are large: it
// lists their metadata, and reads them from the cache if the cache is current.
package snapshot

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Snapshot is the input of one reconcile.
type Snapshot struct {
	// Cluster is the ClusterAPI object; its name is empty if the object does not
	// exist.
	Cluster *v1alpha1.ClusterAPI
	// ConfigMaps are the ConfigMaps in the operator's namespace.
	ConfigMaps []corev1.ConfigMap
}

// Uninstalling reports whether the ClusterAPI object is deleted, so that everything
// that is installed must be removed.
func (s Snapshot) Uninstalling() bool {
	return s.Cluster.Name == "" || !s.Cluster.DeletionTimestamp.IsZero()
}

// Read reads a snapshot. cache may be stale; live reads from the API server. The
// ClusterAPI object is read last, so that it is at least as new as the ConfigMaps.
func Read(ctx context.Context, namespace string, cache, live client.Reader) (Snapshot, error) {
	configMaps, err := ConfigMaps(ctx, namespace, cache, live)
	if err != nil {
		return Snapshot{}, err
	}
	cluster, err := readClusterAPI(ctx, live)
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{Cluster: cluster, ConfigMaps: configMaps}, nil
}

// readClusterAPI returns the ClusterAPI object; its name is empty if the object does
// not exist.
func readClusterAPI(ctx context.Context, live client.Reader) (*v1alpha1.ClusterAPI, error) {
	cluster := &v1alpha1.ClusterAPI{}
	err := live.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster)
	if apierrors.IsNotFound(err) {
		return &v1alpha1.ClusterAPI{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ClusterAPI %q: %w", v1alpha1.ClusterAPIName, err)
	}
	return cluster, nil
}

// ConfigMaps returns the ConfigMaps in the operator's namespace. It reads them from
// the cache if the cache has the versions that the API server lists, and otherwise
// from the API server.
func ConfigMaps(ctx context.Context, namespace string, cache, live client.Reader) ([]corev1.ConfigMap, error) {
	current := &metav1.PartialObjectMetadataList{}
	current.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := live.List(ctx, current, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing ConfigMaps in %s: %w", namespace, err)
	}
	cached, err := listConfigMaps(ctx, namespace, cache)
	if err != nil || maps.Equal(resourceVersions(cached), resourceVersions(current.Items)) {
		return cached, err
	}
	return listConfigMaps(ctx, namespace, live)
}

// listConfigMaps lists the ConfigMaps in the operator's namespace.
func listConfigMaps(ctx context.Context, namespace string, reader client.Reader) ([]corev1.ConfigMap, error) {
	list := &corev1.ConfigMapList{}
	if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing ConfigMaps in %s: %w", namespace, err)
	}
	return list.Items, nil
}

// resourceVersions returns the resource versions of objects by UID.
func resourceVersions[T any, P interface {
	*T
	metav1.Object
}](objects []T) map[types.UID]string {
	versions := map[types.UID]string{}
	for i := range objects {
		versions[P(&objects[i]).GetUID()] = P(&objects[i]).GetResourceVersion()
	}
	return versions
}
