// SPDX-License-Identifier: Apache-2.0

package parallel_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capi-installer/capi-installer/internal/parallel"
)

func ExampleTryMap() {
	lengths, err := parallel.TryMap([]string{"a", "bc", ""}, func(s string) (int, error) {
		if s == "" {
			return 0, fmt.Errorf("empty string")
		}
		return len(s), nil
	})
	fmt.Println(lengths, err)
	// Output: [1 2 0] empty string
}

func TestMap_OrderAndLimit(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	items := make([]int, 1000)
	for i := range items {
		items[i] = i
	}
	results := parallel.Map(items, func(i int) int {
		now := running.Add(1)
		defer running.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		return i
	})
	if !slices.Equal(results, items) {
		t.Error("the results are not in the order of the items")
	}
	if most.Load() > int64(runtime.GOMAXPROCS(0)) {
		t.Errorf("%d concurrent calls", most.Load())
	}
}

func TestMapLimit_Reached(t *testing.T) {
	t.Parallel()
	const limit = 3 // also on a machine with fewer processors
	var running sync.WaitGroup
	running.Add(limit)
	parallel.MapLimit(make([]int, limit), limit, func(int) bool {
		running.Done()
		running.Wait() // until all calls run
		return true
	})
}

func TestMapLimit_NotExceeded(t *testing.T) {
	t.Parallel()
	var running atomic.Int64
	for _, others := range parallel.MapLimit(make([]int, 100), 1, func(int) int64 {
		defer running.Add(-1)
		return running.Add(1) - 1
	}) {
		if others > 0 {
			t.Fatalf("%d other calls run concurrently, want none", others)
		}
	}
}

func TestTryMap_AllErrors(t *testing.T) {
	t.Parallel()
	_, err := parallel.TryMap([]int{1, 2, 3}, func(i int) (int, error) { return 0, fmt.Errorf("error %d", i) })
	if err == nil || err.Error() != "error 1\nerror 2\nerror 3" {
		t.Errorf("error is %v", err)
	}
}
