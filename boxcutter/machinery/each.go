// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"errors"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxConcurrent is how many objects of a phase are written at the same time.
const maxConcurrent = 8

// each does something with each item, in order, and reports what comes of it to
// done, in order. Items that are neighbours of the first of them are done at the
// same time.
//
// The first error ends it, unless errors are to be aggregated: then only "too
// many requests" does, and all errors are joined.
func each[T, R any](
	items []T, neighbours func(first, other T) bool, aggregate bool, done func(T, R), do func(T) (R, error),
) error {
	var errs []error
	for len(items) > 0 {
		size := 1
		for size < len(items) && neighbours(items[0], items[size]) {
			size++
		}
		stop := false
		for i, outcome := range atOnce(items[:size], do) {
			if outcome.err == nil {
				done(items[i], outcome.result)
				continue
			}
			errs = append(errs, outcome.err)
			stop = stop || !aggregate || apierrors.IsTooManyRequests(outcome.err)
		}
		if stop {
			break
		}
		items = items[size:]
	}
	return join(errs)
}

// outcome is what came of an item.
type outcome[R any] struct {
	result R
	err    error
}

// atOnce does something with all items at the same time, and returns what came of
// them in order. After "too many requests" it begins no more of them.
func atOnce[T, R any](items []T, do func(T) (R, error)) []outcome[R] {
	outcomes := make([]outcome[R], len(items))
	begun := 0
	var refused atomic.Bool
	var running sync.WaitGroup
	slots := make(chan struct{}, maxConcurrent)
	for i, item := range items {
		slots <- struct{}{}
		if refused.Load() {
			break
		}
		begun++
		running.Go(func() {
			defer func() { <-slots }()
			outcomes[i].result, outcomes[i].err = do(item)
			if apierrors.IsTooManyRequests(outcomes[i].err) {
				refused.Store(true)
			}
		})
	}
	running.Wait()
	return outcomes[:begun]
}

// join joins errors, but leaves a single one as it is.
func join(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}
