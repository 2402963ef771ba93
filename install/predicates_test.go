// SPDX-License-Identifier: Apache-2.0

package install

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/history"
	"github.com/capi-installer/capi-installer/internal/object"
)

// crdNamed returns the metadata of a CRD, retained or not.
func crdNamed(name string, retained bool) client.Object {
	crd := object.CRDMetadata()
	crd.Name = name
	if retained {
		crd.Annotations = map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways}
	}
	return crd
}

// A condition names the retained CRDs, so it changes with the first and the last event of each.
func TestRetainedCRD_Events(t *testing.T) {
	kept, other := crdNamed("a", true), crdNamed("a", false)
	for name, test := range map[string]struct{ got, want bool }{
		"it becomes retained":          {retainedCRD.Update(event.UpdateEvent{ObjectOld: other, ObjectNew: kept}), true},
		"it is adopted":                {retainedCRD.Update(event.UpdateEvent{ObjectOld: kept, ObjectNew: other}), true},
		"it stays retained":            {retainedCRD.Update(event.UpdateEvent{ObjectOld: kept, ObjectNew: kept}), false},
		"another CRD changes":          {retainedCRD.Update(event.UpdateEvent{ObjectOld: other, ObjectNew: other}), false},
		"a retained CRD is deleted":    {retainedCRD.Delete(event.DeleteEvent{Object: kept}), true},
		"another CRD is deleted":       {retainedCRD.Delete(event.DeleteEvent{Object: other}), false},
		"the list at the start has it": {retainedCRD.Create(event.CreateEvent{Object: kept}), false},
	} {
		if test.got != test.want {
			t.Errorf("%s: reconcile %t, want %t", name, test.got, test.want)
		}
	}
}

// An unmanaged CRD has no event in the cache of installed objects.
func TestCheckedCRD_Events(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cluster := &v1alpha1.ClusterAPI{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterAPIName}}
	cluster.Spec.UnmanagedCRDs = []string{"now.x.io"}
	cluster.Status.Versions = []v1alpha1.Version{{UnmanagedCRDs: []string{"before.x.io"}}, {}}
	predicate := checkedCRD(fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster).Build())
	for name, want := range map[string]bool{"now.x.io": true, "before.x.io": true, compatibility.RequirementsCRD: true, "other.x.io": false} {
		if got := predicate.Update(event.UpdateEvent{ObjectNew: crdNamed(name, false)}); got != want {
			t.Errorf("update of %s: reconcile %t, want %t", name, got, want)
		}
		if got := predicate.Delete(event.DeleteEvent{Object: crdNamed(name, false)}); got != want {
			t.Errorf("deletion of %s: reconcile %t, want %t", name, got, want)
		}
	}
	if checkedCRD(fake.NewClientBuilder().WithScheme(scheme).Build()).Create(event.CreateEvent{Object: crdNamed("now.x.io", false)}) {
		t.Error("without a ClusterAPI object, a CRD causes a reconcile")
	}
}

// The delay grows with each error, with any text, and starts again after progress.
func TestRetries_DelaysGrowUntilProgress(t *testing.T) {
	retries := newRetries()
	var got []time.Duration
	for i := range 9 {
		if i == 7 {
			retries.Forget(clusterAPIRequest)
		}
		got = append(got, retries.When(clusterAPIRequest)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{1, 2, 4, 8, 16, 30, 30, 1, 2}, got); diff != "" {
		t.Errorf("delays in seconds (-want +got):\n%s", diff)
	}
}

// The version controller writes the history itself: an update of it causes no reconcile.
func TestExceptHistory_Events(t *testing.T) {
	record, other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: history.ConfigMapName}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "4.22.0-1"}}
	for name, test := range map[string]struct{ got, want bool }{
		"it changes":                {exceptHistory.Update(event.UpdateEvent{ObjectNew: record}), false},
		"it is deleted":             {exceptHistory.Delete(event.DeleteEvent{Object: record}), true},
		"another ConfigMap changes": {exceptHistory.Update(event.UpdateEvent{ObjectNew: other}), true},
	} {
		if test.got != test.want {
			t.Errorf("%s: reconcile %t, want %t", name, test.got, test.want)
		}
	}
}
