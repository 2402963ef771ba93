// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime/debug"
	"testing"
)

func TestFollowLiveObjects_CollectsALargeHeapOften(t *testing.T) {
	before := debug.SetGCPercent(rarely)
	defer debug.SetGCPercent(before)
	for _, heap := range []struct {
		live uint64
		want int
	}{{small, rarely}, {small + 1, 100}} {
		followLiveObjects(heap.live)
		if got := debug.SetGCPercent(rarely); got != heap.want {
			t.Errorf("with %d bytes of live objects, the growth is %d %%, want %d", heap.live, got, heap.want)
		}
	}
}
