// SPDX-License-Identifier: Apache-2.0

package heap

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestAfterCollections_ReportsLiveObjects(t *testing.T) {
	var live atomic.Uint64
	AfterCollections(live.Store)
	collectUntil := func(what string, reached func(bytes uint64) bool) {
		t.Helper()
		for start := time.Now(); !reached(live.Load()); {
			if time.Since(start) > 10*time.Second {
				t.Fatalf("%d bytes of live objects after ten seconds of collections, want %s", live.Load(), what)
			}
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	}
	large := make([]byte, 100<<20)
	collectUntil("at least 100 MiB", func(bytes uint64) bool { return bytes >= 100<<20 })
	runtime.KeepAlive(large)
	collectUntil("less than 100 MiB", func(bytes uint64) bool { return bytes < 100<<20 })
}
