// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/snapshot"
)

func TestHandedOver_AllButTheNewestVersion(t *testing.T) {
	configMap := func(name, as string) corev1.ConfigMap {
		return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.InstalledAsAnnotation: as}}}
	}
	w := state{snapshot.Snapshot{
		Cluster: &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{Versions: []v1alpha1.Version{
			{Name: "4.22.0-2", Revision: 2, InstalledAs: "4.22.0-1"}, {Name: "4.22.0-3", Revision: 3, InstalledAs: "4.22.0-1"},
			{Name: "4.22.0-4", Revision: 4}, {Name: "4.22.0-5", Revision: 5, InstalledAs: "4.22.0-4"},
		}}},
		ConfigMaps: []corev1.ConfigMap{
			configMap("4.22.0-1", ""), configMap("4.22.0-2", "4.22.0-1"), configMap("4.22.0-3", "4.22.0-1"),
			configMap("4.22.0-4", ""), configMap("4.22.0-5", "4.22.0-4"), configMap("4.22.0-6", ""),
		},
	}}
	for name, want := range map[string]bool{
		"4.22.0-1": true, "4.22.0-2": true, "4.22.0-3": false, "4.22.0-4": true, "4.22.0-5": false, "4.22.0-6": false, "no-version": false,
	} {
		if got := w.handedOver(name); got != want {
			t.Errorf("version %s is handed over: %t, want %t", name, got, want)
		}
	}
}
