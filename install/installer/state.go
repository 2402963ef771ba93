// SPDX-License-Identifier: Apache-2.0

package installer

import (
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

// revisions returns the revision ConfigMaps.
func (s state) revisions() revisions { return s.ConfigMaps }

// orphaning reports whether the garbage collector still has to remove the deleted ClusterAPI object from the owners of the ConfigMaps,
// because the object was deleted with --cascade=orphan.
func (s state) orphaning() bool {
	return slices.Contains(s.Cluster.Finalizers, metav1.FinalizerOrphanDependents)
}
