// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/history"
)

// TestHistory_OutlivesRevisionConfigMaps: a version that was installed, one that was replaced during its rollout and their
// successor are recorded, although only the last one has revision ConfigMaps. An uninstall removes the record.
func TestHistory_OutlivesRevisionConfigMaps(t *testing.T) {
	h := newHarness(t)
	h.releaseA()
	h.start("4.22.0")
	h.settled("4.22.0-1")
	h.releaseB()
	h.rollingOut("4.22.0-2")
	h.releaseA()
	h.settled("4.22.0-3")
	h.onlyVersion("4.22.0-3")
	want := []string{"4.22.0-1 Installed", "4.22.0-2 Replaced", "4.22.0-3 Installed"}
	var recorded []history.Entry
	h.eventually("the history is complete", func() error {
		configMap := &corev1.ConfigMap{}
		if err := h.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: history.ConfigMapName}, configMap); err != nil {
			return err
		}
		recorded = history.Parse(configMap)
		var got []string
		for _, entry := range recorded {
			got = append(got, entry.Version+" "+string(entry.Result))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
	first, last := recorded[0], recorded[2]
	if first.ImagesJSON == "" || first.ImagesJSON != last.ImagesJSON || first.ImagesJSON == recorded[1].ImagesJSON || first.Release != "4.22.0" {
		t.Errorf("images.json of the first and the last version: %q and %q", first.ImagesJSON, last.ImagesJSON)
	}
	if !first.Started.Time.Before(last.Started.Time) || first.Ended.Before(&first.Started) {
		t.Errorf("times %v to %v, and %v", first.Started, first.Ended, last.Started)
	}
	h.expectQuiet(func() { h.reconcileTimes(2) })
	h.must(h.Uninstall(t.Context()))
	h.eventually("nothing is left", func() error { return h.Remaining(t.Context()) })
	err := h.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: history.ConfigMapName}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) { // without the kind of the owner, the garbage collector would leave it
		t.Errorf("the history outlives the ClusterAPI object: %v", err)
	}
}
