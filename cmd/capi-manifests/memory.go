// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime/debug"

	"github.com/capi-installer/capi-installer/internal/heap"
)

const (
	// rarely is the growth of a small heap, in percent, that starts a garbage collection: most commands end before. For
	// a real provider, generate takes a quarter less CPU time than with the runtime's default of 100.
	rarely = 400
	// small is the largest size of live objects, in bytes, where memory matters less than time.
	small = 64 << 20
)

// collectRarely has garbage collected rarely while the heap is small. GOGC in the environment takes precedence.
func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(rarely)
		heap.AfterCollections(followLiveObjects)
	}
}

// followLiveObjects returns to the runtime's default once there are many live objects.
func followLiveObjects(live uint64) {
	if live > small {
		debug.SetGCPercent(100)
	}
}
