// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/internal/heap"
)

func TestMemoryLimit_GrowsOnlyWithManyLiveObjects(t *testing.T) {
	for live, want := range map[uint64]int64{0: 60, 35: 60, 40: 66, 80: 144, 400: 784} {
		if got := memoryLimit(live<<20) >> 20; got != want {
			t.Errorf("the limit for %d MiB of live objects is %d MiB, want %d", live, got, want)
		}
	}
}

func TestBoundMemory_FollowsLiveObjects(t *testing.T) {
	heap.AfterCollections(followLiveObjects)
	limitAfterCollection := func(reached func(limit int64) bool) {
		t.Helper()
		for start := time.Now(); !reached(debug.SetMemoryLimit(-1)); {
			if time.Since(start) > 10*time.Second {
				t.Fatalf("the limit is %d MiB after ten seconds of collections", debug.SetMemoryLimit(-1)>>20)
			}
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	}
	live := make([]byte, 200<<20)
	limitAfterCollection(func(limit int64) bool { return limit >= 266<<20 && limit < 1<<30 })
	runtime.KeepAlive(live)
	limitAfterCollection(func(limit int64) bool { return limit == softLimit })
}
