// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
)

// host is the state of a registry that all images share: its concurrent requests, the pause that it requested, and its
// health.
type host struct {
	slots chan struct{}

	challengeMutex mutex // held by the request that determines the challenge

	mu             sync.Mutex
	addr           netip.Addr // of the last connection
	pausedUntil    time.Time  // end of the pause that it requested
	failures       int        // connections without response since the last response
	stalls         int        // stalled or truncated bodies and missing responses since the last complete body
	unhealthyUntil time.Time  // it is tried last until then
	stalledAt      time.Time  // time of the last stall
	challenge      *challenge
}

func (c *Client) host(name string) *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hosts == nil {
		c.hosts = map[string]*host{}
	}
	if c.hosts[name] == nil {
		c.hosts[name] = &host{challengeMutex: newMutex(), slots: make(chan struct{}, cmp.Or(max(0, c.RequestsPerHost), 8))}
	}
	return c.hosts[name]
}

// acquire waits for the end of a pause and for a free slot. The caller must call
// release.
func (h *host) acquire(ctx context.Context) error {
	for {
		wait := time.Until(h.pauseEnd())
		if wait <= 0 {
			break
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	started := time.Now()
	select {
	case h.slots <- struct{}{}:
		if h.stalledSince(started) {
			h.release()
			return errHostStalled
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *host) release() { <-h.slots }

func (h *host) pauseEnd() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pausedUntil
}

// pauseFor delays new requests to the host.
func (h *host) pauseFor(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until := time.Now().Add(d); until.After(h.pausedUntil) {
		h.pausedUntil = until
	}
}

// recordResponse records that the host sent a response. A host whose bodies stall remains unhealthy.
func (h *host) recordResponse(at netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addr, h.failures = at, 0
	if h.stalls == 0 {
		h.unhealthyUntil = time.Time{}
	}
}

// recordSuccess records that a body was received completely.
func (h *host) recordSuccess() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures, h.stalls, h.unhealthyUntil = 0, 0, time.Time{}
}

func (h *host) address() netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.addr
}

func (h *host) setAddress(at netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addr = at
}

// knownChallenge returns the challenge of the host, or nil if unknown.
func (h *host) knownChallenge() *challenge {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.challenge
}

func (h *host) setChallenge(c challenge) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.challenge = &c
}

// recordFailure records that a connection failed immediately.
func (h *host) recordFailure() {
	h.mu.Lock()
	defer h.mu.Unlock()
	wait := time.Second << min(h.failures, 6)
	h.failures++
	h.unhealthyFor(wait/2 + rand.N(wait/2))
}

// stallPause is how long a host is tried last after its first stall. It doubles with each further stall.
const stallPause = 2 * time.Minute

// recordStall records that the host did not respond in time, or that a body stalled or was truncated. Trying
// the host first would cost that time again for each blob.
func (h *host) recordStall() {
	h.mu.Lock()
	defer h.mu.Unlock()
	wait := stallPause << min(h.stalls, 4)
	h.stalls++
	h.stalledAt = time.Now()
	h.unhealthyFor(wait)
}

// unhealthyFor marks the host as unhealthy, so that it is tried last for a while.
// The caller must hold the lock.
func (h *host) unhealthyFor(d time.Duration) {
	if until := time.Now().Add(d); until.After(h.unhealthyUntil) {
		h.unhealthyUntil = until
	}
}

// stalledSince reports whether a request to the host stalled after a time. Requests that waited for the
// stalled request fail with it; otherwise each would wait for its own timeout, one after another.
func (h *host) stalledSince(t time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stalledAt.After(t)
}

func (h *host) healthy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	return !now.Before(h.unhealthyUntil) && !now.Before(h.pausedUntil)
}

// healthyFirst returns the sources with those last that recently failed or requested a pause, so that a mirror that is
// down costs its timeout once and not for each image.
func (c *Client) healthyFirst(sources []mirror.Source) []mirror.Source {
	var first, then []mirror.Source
	for _, s := range sources {
		if c.host(s.Host()).healthy() {
			first = append(first, s)
		} else {
			then = append(then, s)
		}
	}
	return slices.Concat(first, then)
}

// anyHealthy reports whether one of the sources has not failed recently.
func (c *Client) anyHealthy(sources []mirror.Source) bool {
	return slices.ContainsFunc(sources, func(s mirror.Source) bool { return c.host(s.Host()).healthy() })
}

// shortestPause returns the time until the first of the sources accepts requests again.
func (c *Client) shortestPause(sources []mirror.Source) time.Duration {
	var waits []time.Duration
	for _, s := range sources {
		waits = append(waits, max(0, time.Until(c.host(s.Host()).pauseEnd())))
	}
	return slices.Min(waits)
}
