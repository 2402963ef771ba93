// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"sync"
	"time"
)

// The defaults of Client.
const (
	defaultResponseTimeout = 15 * time.Second
	defaultStallTimeout    = 20 * time.Second
	defaultSourceTimeout   = 25 * time.Second
)

// budget limits the time without progress per source and blob, over all attempts: waiting for responses and for
// stalled bodies. Progress refills it, so slow downloads of large layers are not limited. Pauses that a registry
// requests with Retry-After do not count.
type budget struct {
	mu    sync.Mutex
	total time.Duration
	left  time.Duration
}

func newBudget(total time.Duration) *budget { return &budget{total: total, left: total} }

// limit returns the timeout of the next wait: d, or the rest of the budget if that is less.
func (b *budget) limit(d time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return min(d, max(b.left, time.Millisecond))
}

func (b *budget) spend(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= d
}

func (b *budget) refill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = b.total
}

// empty reports whether the budget is used up.
func (b *budget) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left <= 0
}
