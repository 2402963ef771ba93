// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
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

// continued says whether the objects of a version are those of a newer one, which
// has taken them over as they are: they have one owner. Only the newest of such
// versions has them removed.
func (w world) continued(name string) bool {
	owner := installedAs(w.configMaps, name)
	number, err := revision.Number(name)
	return err == nil && slices.ContainsFunc(w.cluster.Status.Versions, func(v v1alpha1.Version) bool {
		return v.Revision > number && cmp.Or(v.InstalledAs, v.Name) == owner
	})
}
