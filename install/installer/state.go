// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/snapshot"
)

// state is a snapshot with the installer controller's view of it.
type state struct {
	snapshot.Snapshot
	// namespaces are the namespaces of the installation.
	namespaces v1alpha1.Namespaces
	// secrets are the Secrets of versions.
	secrets []corev1.Secret
}

// deletedRevisions returns the revision ConfigMaps that are being deleted and
// have the teardown finalizer.
func (s state) deletedRevisions() []*corev1.ConfigMap {
	var out []*corev1.ConfigMap
	for i := range s.ConfigMaps {
		if c := &s.ConfigMaps[i]; awaitsTeardown(c) && c.Labels[v1alpha1.RevisionPartLabel] == "" {
			out = append(out, c)
		}
	}
	return out
}

// orphanedParts returns the continuation ConfigMaps of deleted versions whose first
// ConfigMap is gone. Their finalizer preserves their content while the first
// ConfigMap exists.
func (s state) orphanedParts() []*corev1.ConfigMap {
	var out []*corev1.ConfigMap
	for i := range s.ConfigMaps {
		configMap := &s.ConfigMaps[i]
		version := configMap.Labels[v1alpha1.RevisionPartLabel]
		first := slices.ContainsFunc(s.ConfigMaps, func(c corev1.ConfigMap) bool { return c.Name == version })
		if version != "" && !first && awaitsTeardown(configMap) {
			out = append(out, configMap)
		}
	}
	return out
}

// uninstalledBy returns the ConfigMaps of versions that the deletion of a ClusterAPI object deletes: those that it owns, with
// their further parts. Parts without their first ConfigMap belong to no version.
func (s state) uninstalledBy(cluster *v1alpha1.ClusterAPI) []*corev1.ConfigMap {
	kept := map[string]bool{"": true}
	for i := range s.ConfigMaps {
		if name := s.ConfigMaps[i].Labels[v1alpha1.RevisionLabel]; name != "" && !metav1.IsControlledBy(&s.ConfigMaps[i], cluster) {
			kept[name] = true
		}
	}
	var out []*corev1.ConfigMap
	for i := range s.ConfigMaps {
		if !kept[versionOf(s.ConfigMaps[i])] {
			out = append(out, &s.ConfigMaps[i])
		}
	}
	return out
}

// versionOf returns the version that a ConfigMap is a part of; empty if there is none.
func versionOf(configMap corev1.ConfigMap) string {
	return cmp.Or(configMap.Labels[v1alpha1.RevisionLabel], configMap.Labels[v1alpha1.RevisionPartLabel])
}

// orphaning reports whether the garbage collector still has to remove the deleted ClusterAPI object from the owners of the ConfigMaps,
// because the object was deleted with --cascade=orphan.
func (s state) orphaning() bool {
	return slices.Contains(s.Cluster.Finalizers, metav1.FinalizerOrphanDependents)
}

func awaitsTeardown(configMap *corev1.ConfigMap) bool {
	return !configMap.DeletionTimestamp.IsZero() && slices.Contains(configMap.Finalizers, v1alpha1.TeardownFinalizer)
}

// versionNames returns the names of the versions that have ConfigMaps, sorted.
func (s state) versionNames() []string {
	var names []string
	for _, configMap := range s.ConfigMaps {
		if name := versionOf(configMap); name != "" {
			names = append(names, name)
		}
	}
	return union(names, nil)
}

// union returns the names in either list, sorted and without duplicates.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
