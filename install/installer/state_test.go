// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/snapshot"
)

// The parts of a version that is removed stay if another version installs them. Of versions that are removed together, only the
// newest one with a part removes it.
func TestOtherParts_OfVersionsInUse(t *testing.T) {
	version := func(number int64, components ...string) v1alpha1.Version { // with the numbers of the owners
		out := v1alpha1.Version{Name: fmt.Sprintf("4.22.0-%d", number), Revision: number}
		for i, owner := range components {
			out.Components = append(out.Components, v1alpha1.Component{Name: string(rune('a' + i)), Type: "core", InstalledAs: owner})
		}
		return out
	}
	s := state{Snapshot: snapshot.Snapshot{Cluster: &v1alpha1.ClusterAPI{Status: v1alpha1.ClusterAPIStatus{
		CurrentVersion: "4.22.0-2", DesiredVersion: "4.22.0-6",
		Versions: []v1alpha1.Version{
			version(1, "", ""), version(2, "4.22.0-1", ""), version(3, "4.22.0-1", "4.22.0-2", ""), version(4, "4.22.0-1", "", "4.22.0-3"),
			version(5, "", "4.22.0-4"), version(6, "", ""),
		},
	}}}}
	for _, kept := range []string{"4.22.0-2", "4.22.0-3", "4.22.0-6"} {
		s.ConfigMaps = append(s.ConfigMaps, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: kept}})
	}
	for _, deleted := range []string{"4.22.0-1", "4.22.0-4", "4.22.0-5"} {
		s.ConfigMaps = append(s.ConfigMaps, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: deleted, DeletionTimestamp: new(metav1.Now())}})
	}
	for name, want := range map[string][]string{ // the parts to remove
		"4.22.0-1": {"4.22.0-1 core/b", "4.22.0-1"},
		"4.22.0-4": {"4.22.0-4"},                                       // 5 has its second component, 3 the third
		"4.22.0-5": {"4.22.0-4 core/b", "4.22.0-5", "4.22.0-5 core/a"}, // the newest version with them
	} {
		got := sets.New[string]()
		for part := range revision.PartsOf(*s.Cluster.Status.Version(name)).Difference(s.otherParts(name)) {
			got.Insert(strings.TrimSpace(part.Owner + " " + part.Component))
		}
		if diff := cmp.Diff(sets.New(want...), got); diff != "" {
			t.Errorf("version %s removes (-want +got):\n%s", name, diff)
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
	s := state{Snapshot: snapshot.Snapshot{ConfigMaps: []corev1.ConfigMap{
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
	if diff := cmp.Diff([]string{"4.22.0-2", "unlabelled"}, names(s.revisions().deleted())); diff != "" {
		t.Errorf("deleted revisions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"4.22.0-1.1"}, names(s.revisions().orphaned())); diff != "" {
		t.Errorf("orphaned parts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"4.22.0-1", "4.22.0-2", "4.22.0-3", "4.22.0-4"}, s.revisions().versions()); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// The deletion of a ClusterAPI object deletes the ConfigMaps that it owns, with their parts. Orphaned versions, and versions
// of another object, stay.
func TestRevisions_OwnedBy(t *testing.T) {
	configMap := func(name, label, version string, owner types.UID) corev1.ConfigMap {
		out := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: version}}}
		if owner != "" {
			out.OwnerReferences = []metav1.OwnerReference{{UID: owner, Controller: new(true)}}
		}
		return out
	}
	const first, part = v1alpha1.RevisionLabel, v1alpha1.RevisionPartLabel
	cluster := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName, UID: "mine"}}
	s := state{Snapshot: snapshot.Snapshot{Cluster: cluster, ConfigMaps: []corev1.ConfigMap{
		configMap("owned", first, "owned", "mine"), configMap("owned.1", part, "owned", "x"),
		configMap("orphaned", first, "orphaned", ""), configMap("orphaned.1", part, "orphaned", "x"),
		configMap("other", first, "other", "theirs"), configMap("lost.1", part, "lost", "x"), configMap("unlabelled", "x", "x", "mine"),
	}}}
	var got []string
	for _, configMap := range s.revisions().ownedBy(cluster) {
		got = append(got, configMap.Name)
	}
	if diff := cmp.Diff([]string{"owned", "owned.1", "lost.1"}, got); diff != "" {
		t.Errorf("uninstalled ConfigMaps (-want +got):\n%s", diff)
	}
}
