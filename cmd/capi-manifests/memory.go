// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime/debug"
)

const (
	// rarely is the growth of the heap, in percent, that starts a garbage collection: most commands end before. For
	// a real provider, generate takes a quarter less CPU time than with the runtime's default of 100.
	rarely = 400
	// large is the size of the heap, in bytes, where memory matters more than time.
	large = 1 << 30
)

// collectRarely has garbage collected rarely while the heap is small. GOGC and GOMEMLIMIT in the environment take precedence.
func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(rarely)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(large)
	}
}
