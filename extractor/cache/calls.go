// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"sync"

	"github.com/capi-installer/capi-installer/extractor"
)

// calls share fetches. It differs from golang.org/x/sync/singleflight in whose
// context a fetch has: not the first caller's, which would fail the others with
// it, and not one without an end, which would leave fetches behind at shutdown.
// A fetch is cancelled when the last of its callers is.
type calls struct {
	mu    sync.Mutex
	going map[string]*call
}

type call struct {
	callers int
	cancel  context.CancelFunc
	done    chan struct{}
	// Set before done is closed.
	bundles []extractor.Bundle
	err     error
}

// do returns what fetch returns, called once for all who ask for a reference meanwhile.
func (c *calls) do(ctx context.Context, reference string, fetch func(context.Context) ([]extractor.Bundle, error)) ([]extractor.Bundle, error) {
	joined := c.join(ctx, reference, fetch)
	select {
	case <-joined.done:
		return joined.bundles, joined.err
	case <-ctx.Done():
		c.leave(reference, joined)
		return nil, &extractor.Error{Image: reference, Err: context.Cause(ctx)}
	}
}

// join returns the call that is going, or starts one.
func (c *calls) join(ctx context.Context, reference string, fetch func(context.Context) ([]extractor.Bundle, error)) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if going := c.going[reference]; going != nil {
		going.callers++
		return going
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	started := &call{callers: 1, cancel: cancel, done: make(chan struct{})}
	if c.going == nil {
		c.going = map[string]*call{}
	}
	c.going[reference] = started
	go func() {
		defer close(started.done)
		started.bundles, started.err = fetch(ctx)
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forget(reference, started)
	}()
	return started
}

// leave is what a caller does that cannot wait any longer. The last one ends the
// call, and nobody can join it from then on.
func (c *calls) leave(reference string, left *call) {
	c.mu.Lock()
	left.callers--
	last := left.callers == 0
	if last {
		c.forget(reference, left)
	}
	c.mu.Unlock()
	if last {
		left.cancel()
		<-left.done
	}
}

// forget makes room for the next call. The caller holds the lock.
func (c *calls) forget(reference string, ended *call) {
	if c.going[reference] == ended {
		delete(c.going, reference)
	}
}
