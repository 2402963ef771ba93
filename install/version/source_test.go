// SPDX-License-Identifier: Apache-2.0

package version_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/install/version"
)

func TestTrigger_SkipsBackoff(t *testing.T) {
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
		trigger.Fire() // never blocks
	}
	again, _ := queue.Get() // without the trigger, in an hour
	if again != request || queue.NumRequeues(again) != 0 {
		t.Errorf("got %v with %d failures, want %v with none", again, queue.NumRequeues(again), request)
	}
}

func TestWatchFile_IgnoresOtherFiles(t *testing.T) {
	directory := t.TempDir()
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(directory, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		file string
		want int
	}{{"other.json", 0}, {"images.json.swp", 0}, {"images.json", 1}, {"release-version", 1}, {"..data", 1}} {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		ctx, cancel := context.WithCancel(t.Context())
		watch, err := version.WatchFile(filepath.Join(directory, "images.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := watch.Start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		write(test.file)
		deadline := time.Now().Add(time.Second)
		for queue.Len() < test.want && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		if test.want == 0 {
			time.Sleep(200 * time.Millisecond)
		}
		if queue.Len() != test.want {
			t.Errorf("writing %s enqueues %d requests, want %d", test.file, queue.Len(), test.want)
		}
		cancel()
		queue.ShutDown()
	}
}
