// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
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

// revisions returns the revision ConfigMaps.
func (s state) revisions() revisions { return s.ConfigMaps }

// orphaning reports whether the garbage collector still has to remove the deleted ClusterAPI object from the owners of the ConfigMaps,
// because the object was deleted with --cascade=orphan.
func (s state) orphaning() bool {
	return slices.Contains(s.Cluster.Finalizers, metav1.FinalizerOrphanDependents)
}

// revisions are the revision ConfigMaps of all versions, with their further parts.
type revisions []corev1.ConfigMap

// deleted returns the revision ConfigMaps that are being deleted and
// have the teardown finalizer.
func (r revisions) deleted() []*corev1.ConfigMap {
	var out []*corev1.ConfigMap
	for i := range r {
		if c := &r[i]; awaitsTeardown(c) && c.Labels[v1alpha1.RevisionPartLabel] == "" {
			out = append(out, c)
		}
	}
	return out
}

// orphaned returns the continuation ConfigMaps of deleted versions whose first
// ConfigMap is gone. Their finalizer preserves their content while the first
// ConfigMap exists.
func (r revisions) orphaned() []*corev1.ConfigMap {
	var out []*corev1.ConfigMap
	for i := range r {
		configMap := &r[i]
		version := configMap.Labels[v1alpha1.RevisionPartLabel]
		first := slices.ContainsFunc(r, func(c corev1.ConfigMap) bool { return c.Name == version })
		if version != "" && !first && awaitsTeardown(configMap) {
			out = append(out, configMap)
		}
	}
	return out
}

// ownedBy returns the ConfigMaps of versions that the deletion of a ClusterAPI object deletes: those that it owns, with
// their further parts. Parts without their first ConfigMap belong to no version.
func (r revisions) ownedBy(cluster *v1alpha1.ClusterAPI) []*corev1.ConfigMap {
	kept := map[string]bool{"": true}
	for i := range r {
		if name := r[i].Labels[v1alpha1.RevisionLabel]; name != "" && !metav1.IsControlledBy(&r[i], cluster) {
			kept[name] = true
		}
	}
	var out []*corev1.ConfigMap
	for i := range r {
		if !kept[revision.VersionOf(r[i])] {
			out = append(out, &r[i])
		}
	}
	return out
}

// versions returns the names of the versions that have ConfigMaps, sorted.
func (r revisions) versions() []string {
	var names []string
	for _, configMap := range r {
		if name := revision.VersionOf(configMap); name != "" {
			names = append(names, name)
		}
	}
	return union(names, nil)
}

// isDeleted reports whether the revision ConfigMap of a version is being deleted, or does not exist.
func (r revisions) isDeleted(name string) bool {
	return !slices.ContainsFunc(r, func(c corev1.ConfigMap) bool { return c.Name == name && c.DeletionTimestamp.IsZero() })
}

// installedAs returns the version that the objects of a version name as their owner.
func (r revisions) installedAs(name string) string {
	for i := range r {
		if as := r[i].Annotations[v1alpha1.InstalledAsAnnotation]; as != "" && r[i].Name == name {
			return as
		}
	}
	return name
}

func awaitsTeardown(configMap *corev1.ConfigMap) bool {
	return !configMap.DeletionTimestamp.IsZero() && slices.Contains(configMap.Finalizers, v1alpha1.TeardownFinalizer)
}

// union returns the names in either list, sorted and without duplicates.
func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}
