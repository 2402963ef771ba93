// SPDX-License-Identifier: Apache-2.0

package registryconfig

import (
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestRegistries_InvalidateBeforeReconcile(t *testing.T) {
	registries := &Registries{}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	want := reconcile.Request{NamespacedName: client.ObjectKey{Name: "cluster"}}
	handler := registries.EventHandler(nil, want)
	set := &configv1.ImageDigestMirrorSet{}
	for name, happen := range map[string]func(){
		"created": func() { handler.Create(t.Context(), event.CreateEvent{Object: set}, queue) },
		"changed": func() { handler.Update(t.Context(), event.UpdateEvent{ObjectOld: set, ObjectNew: set}, queue) },
		"deleted": func() { handler.Delete(t.Context(), event.DeleteEvent{Object: set}, queue) },
	} {
		registries.at = time.Now()
		happen()
		request, _ := queue.Get()
		queue.Done(request)
		if request != want || !registries.at.IsZero() {
			t.Errorf("%s: request %v is enqueued while the configuration read at %v is still valid", name, request, registries.at)
		}
	}
}
