// SPDX-License-Identifier: Apache-2.0

// Package bounded calls a function for many items with limited concurrency.
package bounded

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Outcome is the result or the error of an item.
type Outcome[R any] struct {
	// Result is valid if Err is nil.
	Result R
	Err    error
}

// Do calls do for the items in order, with at most limit concurrent calls; below 2,
// one by one. After stop returns true for an error, it starts no further calls. When
// all started calls have ended, it returns their outcomes in order.
func Do[T, R any](items []T, limit int, stop func(error) bool, do func(T) (R, error)) []Outcome[R] {
	if limit < 2 || len(items) < 2 {
		return inTurn(items, stop, do)
	}
	return atOnce(items, limit, stop, do)
}

func inTurn[T, R any](items []T, stop func(error) bool, do func(T) (R, error)) []Outcome[R] {
	var outcomes []Outcome[R]
	for _, item := range items {
		result, err := do(item)
		outcomes = append(outcomes, Outcome[R]{result, err})
		if err != nil && stop(err) {
			break
		}
	}
	return outcomes
}

func atOnce[T, R any](items []T, limit int, stop func(error) bool, do func(T) (R, error)) []Outcome[R] {
	outcomes := make([]Outcome[R], len(items))
	begun := 0
	var stopped atomic.Bool
	var running sync.WaitGroup
	var panicked atomic.Pointer[string]
	slots := make(chan struct{}, limit)
	for i, item := range items {
		slots <- struct{}{}
		if stopped.Load() {
			break
		}
		begun++
		running.Go(func() {
			defer func() { <-slots }()
			defer func() {
				if reason := recover(); reason != nil {
					text := fmt.Sprintf("%v\n%s", reason, debug.Stack())
					panicked.Store(&text)
					stopped.Store(true)
				}
			}()
			outcomes[i].Result, outcomes[i].Err = do(item)
			if err := outcomes[i].Err; err != nil && stop(err) {
				stopped.Store(true)
			}
		})
	}
	running.Wait()
	// A caller can recover from a panic only in its own goroutine.
	if text := panicked.Load(); text != nil {
		panic(*text)
	}
	return outcomes[:begun]
}
