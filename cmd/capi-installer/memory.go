// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime/debug"

	"github.com/capi-installer/capi-installer/internal/heap"
)

const (
	// softLimit is the limit of the Go runtime in bytes while the live objects leave room, in addition to the 48 MiB of the
	// program itself. Sixteen real providers fit into it.
	softLimit = 60 << 20
	// reserve is the memory of the Go runtime for other purposes than live objects, in bytes.
	reserve = 16 << 20
)

// boundMemory returns memory to the system early, because the objects of a reconcile are large and short-lived, and the
// program is idle most of the time. GOGC and GOMEMLIMIT in the environment take precedence.
func boundMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit)
		heap.AfterCollections(followLiveObjects)
	}
}

// followLiveObjects sets the memory limit: if the live objects nearly fill a fixed one, the runtime collects without pause.
func followLiveObjects(live uint64) { debug.SetMemoryLimit(memoryLimit(live)) }

// memoryLimit returns the memory limit for a number of bytes of live objects. Between two collections, at least a quarter
// of that number can be allocated, and for many live objects as much as they need, less two reserves: a release four times
// as large allocates four times as much, and should not be collected more often.
func memoryLimit(live uint64) int64 {
	bytes := int64(live) //nolint:gosec // far below the maximum
	return max(softLimit, bytes+bytes/4+reserve, 2*bytes-reserve)
}
