// SPDX-License-Identifier: Apache-2.0

package term

import (
	"context"
	"time"
)

// interruptGrace is the time for cleanup after Ctrl-C in code without a context.
const interruptGrace = time.Second

// Interruptible returns the result of compute, a function without context and side
// effects. If ctx ends, it soon returns the cause, and compute continues until the
// program exits.
func Interruptible[T any](ctx context.Context, compute func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := compute()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
	}
	select {
	case <-done:
	case <-time.After(interruptGrace):
	}
	var none T
	return none, context.Cause(ctx)
}
