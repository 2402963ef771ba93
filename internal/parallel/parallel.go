// SPDX-License-Identifier: Apache-2.0

// Package parallel applies a function to many items concurrently, by default with
// GOMAXPROCS goroutines.
package parallel

import (
	"errors"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Map returns the results of f for all items, in the order of the items.
func Map[In, Out any](items []In, f func(In) Out) []Out {
	return MapLimit(items, runtime.GOMAXPROCS(0), f)
}

// MapLimit is Map with at most limit concurrent calls, for functions that wait
// for I/O, such as requests.
func MapLimit[In, Out any](items []In, limit int, f func(In) Out) []Out {
	results := make([]Out, len(items))
	var group errgroup.Group
	group.SetLimit(limit)
	for i, item := range items {
		group.Go(func() error {
			results[i] = f(item)
			return nil
		})
	}
	_ = group.Wait() // no call returns an error
	return results
}

// TryMap returns the results of f for all items, in the order of the items, and
// joins all errors. An error does not stop the calls for the other items.
func TryMap[In, Out any](items []In, f func(In) (Out, error)) ([]Out, error) {
	errs := make([]error, len(items))
	indexes := make([]int, len(items))
	for i := range items {
		indexes[i] = i
	}
	results := Map(indexes, func(i int) (out Out) {
		out, errs[i] = f(items[i])
		return out
	})
	return results, errors.Join(errs...)
}
