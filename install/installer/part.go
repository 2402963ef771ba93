// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// leftover are the further ConfigMaps of versions whose first one is gone. They
// have a finalizer, because what they hold is needed as long as there is the first.
func leftover(configMaps []corev1.ConfigMap) (parts []*corev1.ConfigMap) {
	for i := range configMaps {
		part := &configMaps[i]
		version := part.Labels[v1alpha1.RevisionPartLabel]
		first := slices.ContainsFunc(configMaps, func(c corev1.ConfigMap) bool { return c.Name == version })
		if version != "" && !first && !part.DeletionTimestamp.IsZero() && slices.Contains(part.Finalizers, v1alpha1.TeardownFinalizer) {
			parts = append(parts, part)
		}
	}
	return parts
}

// continued says whether the objects of a version are now those of a newer one,
// which has taken them over as they are.
func (w world) continued(name string) bool {
	for _, version := range w.cluster.Status.Versions {
		if version.InstalledAs == name && version.Name != name {
			return true
		}
	}
	return false
}
