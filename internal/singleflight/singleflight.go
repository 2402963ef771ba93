// SPDX-License-Identifier: Apache-2.0

// Package singleflight deduplicates concurrent calls with the same key.
package singleflight

import (
	"context"
	"sync"
)

// Group deduplicates calls by key. The zero value is ready to use. A Group must
// not be copied after first use. Unlike in golang.org/x/sync/singleflight, a call
// has its own context. It is canceled when the contexts of all callers have
// ended. With the context of the first caller, its cancellation would fail the
// other callers; with a background context, calls would outlive a shutdown.
type Group[K comparable, V any] struct {
	mu    sync.Mutex
	going map[K]*call[V]
}

type call[V any] struct {
	callers int
	cancel  context.CancelFunc
	done    chan struct{}
	// Set before done is closed.
	value V
	err   error
}

// Do returns the result of work. It calls work once for all concurrent callers with the same key.
// first reports whether this caller started the call; if it is false, an error may be specific to
// the caller that did. If ctx ends, the error is its cause; if it has ended before, work is not called.
func (g *Group[K, V]) Do(ctx context.Context, key K, work func(context.Context) (V, error)) (value V, first bool, err error) {
	if ctx.Err() != nil {
		return value, false, context.Cause(ctx)
	}
	joined, first := g.join(ctx, key, work)
	select {
	case <-joined.done:
		return joined.value, first, joined.err
	case <-ctx.Done():
		g.leave(key, joined)
		return value, first, context.Cause(ctx)
	}
}

// join returns the running call, or starts one.
func (g *Group[K, V]) join(ctx context.Context, key K, work func(context.Context) (V, error)) (joined *call[V], first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if going := g.going[key]; going != nil {
		going.callers++
		return going, false
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	started := &call[V]{callers: 1, cancel: cancel, done: make(chan struct{})}
	if g.going == nil {
		g.going = map[K]*call[V]{}
	}
	g.going[key] = started
	go func() {
		defer close(started.done)
		started.value, started.err = work(ctx)
		cancel()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.forget(key, started)
	}()
	return started, true
}

// leave removes a caller whose context has ended. The last caller to leave
// cancels the call, and later callers start a new one.
func (g *Group[K, V]) leave(key K, left *call[V]) {
	g.mu.Lock()
	left.callers--
	last := left.callers == 0
	if last {
		g.forget(key, left)
	}
	g.mu.Unlock()
	if last {
		left.cancel()
		<-left.done
	}
}

// forget removes a call. The caller must hold the lock.
func (g *Group[K, V]) forget(key K, ended *call[V]) {
	if g.going[key] == ended {
		delete(g.going, key)
	}
}
