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

func TestPoll_NoticesTheFilesOfTheRelease(t *testing.T) {
	directory := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	state := version.ReleaseState(filepath.Join(directory, "images.json"))
	before := state()
	for _, test := range []struct {
		file, text string
		changes    bool
	}{
		{"other.json", "{}", false}, {"images.json", "{}", true}, {"images.json", "{}", true}, {"images.json", `{"a": "b"}`, true},
		{"release-version", "4.22.0", true}, {"images.json.swp", "{}", false},
	} {
		write(test.file, test.text)
		after := state()
		if changes := after != before; changes != test.changes {
			t.Errorf("%s with %s changes the state: %t", test.file, test.text, changes)
		}
		before = after
	}
	changed := make(chan struct{}, 1)
	poll := &version.Poll{State: state, Changed: func() { changed <- struct{}{} }}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- poll.Start(ctx) }()
	<-changed // at the start
	write("release-version", "4.22.1")
	<-changed
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
