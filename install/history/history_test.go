// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

func at(minute int) metav1.Time {
	return metav1.Date(2026, 5, 4, 12, minute, 0, 0, time.UTC)
}

// seen is the observation of a desired version at a minute; installed is the current version.
func seen(desired string, number int64, installed string, minute int, degraded string) Observation {
	status := v1alpha1.ClusterAPIStatus{DesiredVersion: desired, CurrentVersion: installed, Versions: []v1alpha1.Version{{Name: desired, Revision: number}}}
	if degraded != "" {
		status.Conditions = []metav1.Condition{{Type: "InstallerDegraded", Status: metav1.ConditionTrue, Reason: degraded}}
	}
	return Observation{Status: status, Now: at(minute), Release: "1.0.0", ImagesJSON: "{}"}
}

func TestRecord_FollowsVersions(t *testing.T) {
	var entries []Entry
	for _, observation := range []Observation{
		{},
		seen("1.0.0-1", 1, "", 0, ""), seen("1.0.0-1", 1, "1.0.0-1", 2, ""), seen("1.0.0-1", 1, "1.0.0-1", 3, "DriftUnreverted"),
		seen("1.1.0-2", 2, "1.0.0-1", 10, ""), seen("1.1.0-2", 2, "1.0.0-1", 12, "Collision"),
		seen("1.2.0-3", 3, "1.0.0-1", 20, ""),
	} {
		entries = Record(entries, observation)
	}
	want := []Entry{
		{Version: "1.0.0-1", Revision: 1, Release: "1.0.0", ImagesJSON: "{}", Started: at(0), Ended: at(2), Result: Installed},
		{Version: "1.1.0-2", Revision: 2, Release: "1.0.0", ImagesJSON: "{}", Started: at(10), Ended: at(20), Result: Replaced, Reason: "Collision"},
		{Version: "1.2.0-3", Revision: 3, Release: "1.0.0", ImagesJSON: "{}", Started: at(20), Result: Installing},
	}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Error(diff)
	}
	configMap := &corev1.ConfigMap{Data: Data(entries)}
	configMap.Data["note"] = "of another actor"
	if diff := cmp.Diff(entries, Parse(configMap), cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
		t.Error(diff)
	}
	if !Ended(configMap, "1.0.0-1") || Ended(configMap, "1.2.0-3") || Ended(&corev1.ConfigMap{}, "1.0.0-1") {
		t.Error("only the entries of installed and replaced versions are complete")
	}
}

// TestRecord_IsBounded installs one version, and then has 100 that fail: the way back to the installed one stays.
func TestRecord_IsBounded(t *testing.T) {
	for name, images := range map[string]string{"many": "{}", "large": strings.Repeat("x", 60<<10)} {
		t.Run(name, func(t *testing.T) {
			entries := Record(nil, seen("1.0.0-1", 1, "1.0.0-1", 0, ""))
			for i := int64(2); i <= 101; i++ {
				observation := seen(fmt.Sprintf("1.0.0-%d", i), i, "1.0.0-1", 1, "")
				observation.ImagesJSON = images
				entries = Record(entries, observation)
			}
			if len(entries) > maxEntries || len(entries) < 5 || size(entries) > maxBytes {
				t.Errorf("%d entries of %d bytes", len(entries), size(entries))
			}
			if entries[0].Version != "1.0.0-1" || entries[len(entries)-1].Version != "1.0.0-101" {
				t.Errorf("kept %s to %s", entries[0].Version, entries[len(entries)-1].Version)
			}
		})
	}
}

func TestChanges_NamesComponents(t *testing.T) {
	before := Entry{Components: []v1alpha1.Component{
		{Name: "core", Version: "v1.0.0", ContentID: "a", Image: "i"}, {Name: "aws", Version: "v2.0.0", ContentID: "b", Image: "j", Settings: []string{"variables[A]", "variables[B]"}},
		{Name: "ipam", Version: "v1.0.0"}, {Name: "same", Version: "v1.0.0"}, {Name: "kubeadm", Version: "v1", Image: "x"},
	}}
	after := Entry{UnmanagedCRDs: []string{"clusters.cluster.x-k8s.io"}, Components: []v1alpha1.Component{
		{Name: "core", Version: "v1.1.0", ContentID: "c", Image: "i"}, {Name: "aws", Version: "v2.0.0", ContentID: "d", Image: "j", Settings: []string{"variables[B]", "featureGates[C]"}},
		{Name: "same", Version: "v1.0.0"}, {Name: "kubeadm", Version: "v1", Image: "y", Overridden: true}, {Name: "addon", Version: "v0.1.0"},
	}}
	want := []string{"core v1.0.0 -> v1.1.0", "aws manifests", "aws sets featureGates[C]", "aws no longer sets variables[A]", "kubeadm image", "kubeadm is overridden", "added addon v0.1.0", "removed ipam", "unmanaged CRDs"}
	if got := Changes(before, after); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
