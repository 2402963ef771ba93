// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/install/engine"
)

// manager returns a Deployment.
func manager(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"namespace": "capi", "name": name},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": name}}},
	}}
}

// podOf returns a pod of a Deployment.
func podOf(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "capi", Name: name + "-1", Labels: map[string]string{"app": name}}}
}

// A removal waits for Deployments of its version and for their pods, and leaves Deployments that a newer version has adopted.
func TestStop(t *testing.T) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(appsv1.AddToScheme, corev1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	deleting := controlledBy(t, "4.22.0-1", manager("deleting"))
	deleting.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	deleting.SetFinalizers([]string{"test.example.com/hold"})
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		controlledBy(t, "4.22.0-1", manager("ours")), controlledBy(t, "4.22.0-2", manager("adopted")), manager("foreign"), deleting,
		podOf("ours"), podOf("adopted"), podOf("gone"), podOf("other"),
	).Build()
	remover := &Remover{Engine: &engine.Engine{Owners: owners, Reader: cluster}, Live: cluster, Writer: cluster}
	rev := revisionOf(settings("a"), manager("ours"), manager("adopted"), manager("foreign"), manager("deleting"), manager("gone"), manager("without-pods"))
	for _, test := range []struct {
		name  string
		began time.Time
		want  []string
	}{
		{"the first pass", time.Now(), []string{"Deployment capi/ours", "Deployment capi/deleting", "the pods of Deployment capi/gone"}},
		{"the second pass", time.Now(), []string{"Deployment capi/deleting", "the pods of Deployment capi/ours", "the pods of Deployment capi/gone"}},
		{"after the limit", time.Now().Add(-stopLimit - time.Second), []string{"Deployment capi/deleting"}},
	} {
		running, err := remover.Stop(t.Context(), rev, test.began)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, running); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	for name, exists := range map[string]bool{"ours": false, "adopted": true, "foreign": true} {
		if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "capi", Name: name}, &appsv1.Deployment{}); apierrors.IsNotFound(err) == exists {
			t.Errorf("Deployment %s: %v, want it to exist: %t", name, err, exists)
		}
	}
}

// The cache can show the former owner of a Deployment that a newer version has just adopted.
func TestStop_OutdatedCache(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cached := controlledBy(t, "4.22.0-1", manager("adopted"))
	cached.SetUID("1")
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cached).Build()
	adopted := controlledBy(t, "4.22.0-2", manager("adopted"))
	adopted.SetUID("1")
	adopted.SetResourceVersion("1234")
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(adopted).Build()
	remover := &Remover{Engine: &engine.Engine{Owners: owners, Reader: cache}, Live: cluster, Writer: cluster}
	running, err := remover.Stop(t.Context(), revisionOf(manager("adopted")), time.Now())
	if err != nil || len(running) != 1 {
		t.Errorf("running %v, %v; want the Deployment", running, err)
	}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(adopted), &appsv1.Deployment{}); err != nil {
		t.Error("the adopted Deployment:", err)
	}
}
