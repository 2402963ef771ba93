// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
)

// interruptGrace is how long what knows no context may go on after Ctrl-C, so that it can tidy up.
const interruptGrace = time.Second

// interruptible returns what compute does, which knows no context and writes nothing that matters. Soon
// after ctx has ended it returns the reason for that, and leaves compute to the end of the program.
func interruptible[T any](ctx context.Context, compute func() (T, error)) (T, error) {
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
