// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// The finalizer of a part preserves the content of a version while its revision ConfigMap exists.
func TestState_DeletedConfigMaps(t *testing.T) {
	configMap := func(name, label, version string, deleted bool, finalizers ...string) corev1.ConfigMap {
		out := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: version}, Finalizers: finalizers}}
		if deleted {
			out.DeletionTimestamp = new(metav1.Now())
		}
		return out
	}
	const first, part, other = v1alpha1.RevisionLabel, v1alpha1.RevisionPartLabel, "other"
	s := state{snapshot.Snapshot{ConfigMaps: []corev1.ConfigMap{
		configMap("4.22.0-2", first, "4.22.0-2", true, v1alpha1.TeardownFinalizer),
		configMap("4.22.0-2.1", part, "4.22.0-2", true, v1alpha1.TeardownFinalizer),
		configMap("4.22.0-3", first, "4.22.0-3", false, v1alpha1.TeardownFinalizer),
		configMap("4.22.0-3.1", part, "4.22.0-3", true, v1alpha1.TeardownFinalizer),
		configMap("4.22.0-1.1", part, "4.22.0-1", true, v1alpha1.TeardownFinalizer),
		configMap("4.22.0-1.2", part, "4.22.0-1", false, v1alpha1.TeardownFinalizer),
		configMap("4.22.0-1.3", part, "4.22.0-1", true, "example.com/other"),
		configMap("4.22.0-4", first, "4.22.0-4", true, "example.com/other"),
		configMap("unlabelled", other, "", true, v1alpha1.TeardownFinalizer),
	}}}
	names := func(configMaps []*corev1.ConfigMap) (out []string) {
		for _, configMap := range configMaps {
			out = append(out, configMap.Name)
		}
		return out
	}
	if diff := cmp.Diff([]string{"4.22.0-2", "unlabelled"}, names(s.deletedRevisions())); diff != "" {
		t.Errorf("deleted revisions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"4.22.0-1.1"}, names(s.orphanedParts())); diff != "" {
		t.Errorf("orphaned parts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"4.22.0-1", "4.22.0-2", "4.22.0-3", "4.22.0-4"}, s.versionNames()); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// The deletion of a ClusterAPI object deletes the ConfigMaps that it owns, with their parts. Orphaned versions, and those of
// another object, stay.
func TestState_UninstalledBy(t *testing.T) {
	configMap := func(name, label, version string, owner types.UID) corev1.ConfigMap {
		out := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: version}}}
		if owner != "" {
			out.OwnerReferences = []metav1.OwnerReference{{UID: owner, Controller: new(true)}}
		}
		return out
	}
	const first, part = v1alpha1.RevisionLabel, v1alpha1.RevisionPartLabel
	cluster := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName, UID: "mine"}}
	s := state{snapshot.Snapshot{Cluster: cluster, ConfigMaps: []corev1.ConfigMap{
		configMap("owned", first, "owned", "mine"), configMap("owned.1", part, "owned", "x"),
		configMap("orphaned", first, "orphaned", ""), configMap("orphaned.1", part, "orphaned", "x"),
		configMap("other", first, "other", "theirs"), configMap("lost.1", part, "lost", "x"), configMap("unlabelled", "x", "x", "mine"),
	}}}
	var got []string
	for _, configMap := range s.uninstalledBy(cluster) {
		got = append(got, configMap.Name)
	}
	if diff := cmp.Diff([]string{"owned", "owned.1", "lost.1"}, got); diff != "" {
		t.Errorf("uninstalled ConfigMaps (-want +got):\n%s", diff)
	}
}
