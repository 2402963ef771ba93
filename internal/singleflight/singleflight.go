// SPDX-License-Identifier: Apache-2.0

// Package singleflight lets concurrent callers of the same work share one call.
package singleflight

import (
	"context"
	"sync"
)

// Group shares the calls for keys. The zero value is usable; it must not be
// copied once it is used. It differs from golang.org/x/sync/singleflight in
// the context of a call: not the first caller's, whose end would fail the others,
// and not one without end, which would leave calls behind at
// shutdown. A call is canceled when the contexts of all of its callers have ended.
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

// Do returns the result of work, which is called once for all concurrent callers with the same key.
// first reports whether this caller started the call: an error of a call that
// another caller started can be specific to that caller. If ctx ends, the error is its cause.
func (g *Group[K, V]) Do(ctx context.Context, key K, work func(context.Context) (V, error)) (value V, first bool, err error) {
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

// leave removes a caller whose context has ended. The last one cancels the
// call, which cannot be joined any more.
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

// forget removes a call. The caller holds the lock.
func (g *Group[K, V]) forget(key K, ended *call[V]) {
	if g.going[key] == ended {
		delete(g.going, key)
	}
}
