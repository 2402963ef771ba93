// SPDX-License-Identifier: Apache-2.0

// Package flight shares work that is under way: who asks for what somebody else
// is getting already waits for that, instead of getting it twice.
package flight

import (
	"context"
	"sync"
)

// Group shares the calls for keys. The zero value is usable; it must not be
// copied once it is used. It differs from golang.org/x/sync/singleflight in
// whose context a call has: not the first caller's, which would fail the others
// with it, and not one without an end, which would leave calls behind at
// shutdown. A call is cancelled when the last of its callers is.
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

// Do returns what work returns, called once for all who ask for a key meanwhile.
// first says whether it was called for this caller: the error of a call that
// another one started may be that one's alone. If ctx ends, the error is its cause.
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

// join returns the call that is going, or starts one.
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

// leave is what a caller does that cannot wait any longer. The last one ends the
// call, and nobody can join it from then on.
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

// forget makes room for the next call. The caller holds the lock.
func (g *Group[K, V]) forget(key K, ended *call[V]) {
	if g.going[key] == ended {
		delete(g.going, key)
	}
}
