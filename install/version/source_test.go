// SPDX-License-Identifier: Apache-2.0

package version_test

import (
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/install/version"
)

func TestATriggerRunsAtOnceWhatWaitsToBeTriedAgain(t *testing.T) {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour)
	queue := workqueue.NewTypedRateLimitingQueue[reconcile.Request](limiter)
	defer queue.ShutDown()
	trigger := version.NewTrigger()
	if err := trigger.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	trigger.Fire()
	request, _ := queue.Get()
	queue.AddRateLimited(request) // as after an error
	queue.Done(request)
	if waiting := queue.NumRequeues(request); waiting != 1 {
		t.Fatalf("%d failures are counted, want 1", waiting)
	}
	for range 3 {
		trigger.Fire() // never waits
	}
	again, _ := queue.Get() // in an hour, were it not for the trigger
	if again != request || queue.NumRequeues(again) != 0 {
		t.Errorf("got %v with %d failures, want %v with none", again, queue.NumRequeues(again), request)
	}
}
