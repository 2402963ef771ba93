// SPDX-License-Identifier: Apache-2.0

package singleflight_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capi-installer/capi-installer/internal/singleflight"
)

func ExampleGroup() {
	var group singleflight.Group[string, string]
	var calls atomic.Int32
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			_, _, _ = group.Do(context.Background(), "layer", func(context.Context) (string, error) {
				calls.Add(1)
				time.Sleep(100 * time.Millisecond)
				return "content", nil
			})
		})
	}
	callers.Wait()
	fmt.Println(calls.Load() < 10)
	// Output: true
}
