// SPDX-License-Identifier: Apache-2.0

// Package bounded does something with many items, some of them at the same time.
package bounded

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Outcome is what came of an item.
type Outcome[R any] struct {
	// Result is what there is unless Err is set.
	Result R
	Err    error
}

// Do does something with the items, which it begins in their order, with at most
// limit of them at the same time; a limit below 2 means one after the other. It
// begins no more once stop says so of the error of one. The outcomes are those of
// the items that were begun, in order. It returns when all of these have ended.
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
	// Whoever called can recover from a panic in a goroutine of their own only.
	if text := panicked.Load(); text != nil {
		panic(*text)
	}
	return outcomes[:begun]
}
