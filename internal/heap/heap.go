// SPDX-License-Identifier: Apache-2.0

// Package heap follows the size of the heap of the program.
package heap

import (
	"runtime"
	"runtime/metrics"
)

// AfterCollections calls f after each garbage collection from now on, with the number of bytes of live objects.
// f must return soon, because other cleanups of the runtime wait for it.
func AfterCollections(f func(live uint64)) {
	runtime.AddCleanup(new(*int), func(struct{}) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		f(live[0].Value.Uint64())
		AfterCollections(f)
	}, struct{}{})
}
