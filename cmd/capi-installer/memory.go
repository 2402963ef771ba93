// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// softLimit is the limit of the Go runtime in bytes while the live objects leave room, in addition to the 36 MiB of the
	// program itself. Sixteen real providers fit into it.
	softLimit = 68 << 20
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
		followLiveObjects()
	}
}

// followLiveObjects sets the memory limit after each garbage collection from now on: if the live objects nearly fill a
// fixed limit, the runtime collects without pause.
func followLiveObjects() {
	runtime.AddCleanup(new(*int), func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetMemoryLimit(memoryLimit(live[0].Value.Uint64()))
		followLiveObjects()
	}, struct{}{})
}

// memoryLimit returns the memory limit for a number of bytes of live objects: at least a quarter of them can be allocated
// between two collections.
func memoryLimit(live uint64) int64 {
	return max(softLimit, int64(live+live/4)+reserve) //nolint:gosec // far below the maximum
}
