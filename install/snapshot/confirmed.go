// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Confirmed reads snapshots for one controller, and remembers the ConfigMaps of the
// last consistent read. The zero value remembers none. It is not safe for concurrent
// use.
type Confirmed struct {
	// cluster is the UID of the ClusterAPI object.
	cluster types.UID
	// names are the names of its versions.
	names []string
	// configMaps are the resource versions of the ConfigMaps by UID.
	configMaps map[types.UID]string
}

// Read reads a snapshot. It always reads the ClusterAPI object from the API server.
// It uses the cached ConfigMaps without a list from the API server only while all of
// this holds:
//   - The cache has the ConfigMaps of the last consistent read.
//   - The ClusterAPI object is the same as then, has the same versions, and is not
//     being deleted.
//   - No ConfigMap is being deleted, so that no object is deleted on cached data.
//
// Then the cache lacks at most changes of other actors since that read. The watch
// reports them later. The version controller adds a version to the status after its
// ConfigMap, so the objects of a new version are never created on older data.
func (c *Confirmed) Read(ctx context.Context, cache, live client.Reader) (Snapshot, error) {
	if out, ok, err := c.unchanged(ctx, cache, live); ok || err != nil {
		return out, err
	}
	*c = Confirmed{}
	out, err := Read(ctx, cache, live)
	if err == nil && !out.Uninstalling() {
		*c = Confirmed{cluster: out.Cluster.UID, names: versionNames(out.Cluster), configMaps: resourceVersions(out.ConfigMaps)}
	}
	return out, err
}

// unchanged returns a snapshot with the cached ConfigMaps, and whether it may be used.
func (c *Confirmed) unchanged(ctx context.Context, cache, live client.Reader) (Snapshot, bool, error) {
	if c.configMaps == nil {
		return Snapshot{}, false, nil
	}
	cached, err := listConfigMaps(ctx, cache)
	if err != nil || slices.ContainsFunc(cached, isDeleted) || !maps.Equal(c.configMaps, resourceVersions(cached)) {
		return Snapshot{}, false, err
	}
	cluster, err := readClusterAPI(ctx, live)
	if err != nil {
		return Snapshot{}, false, err
	}
	out := Snapshot{Cluster: cluster, ConfigMaps: cached}
	return out, !out.Uninstalling() && cluster.UID == c.cluster && slices.Equal(c.names, versionNames(cluster)), nil
}

func isDeleted(configMap corev1.ConfigMap) bool { return !configMap.DeletionTimestamp.IsZero() }

func versionNames(cluster *v1alpha1.ClusterAPI) []string {
	names := make([]string, len(cluster.Status.Versions))
	for i, version := range cluster.Status.Versions {
		names[i] = version.Name
	}
	return names
}
