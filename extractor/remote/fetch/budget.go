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

// budget is the time without progress that one source may cost for one blob, over all attempts: waiting
// for responses, and for bodies that stall. Progress restores it, so a slow download of a large layer has no limit.
// Pauses that a registry asks for (Retry-After) do not count.
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

// empty reports whether the source has had its time.
func (b *budget) empty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left <= 0
}
