// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
)

// host is what all images share of what is known of a registry: how many requests
// it has at once, until when it asked to be left alone, whether it answers at all, and how
// often it may be asked again.
type host struct {
	slots  chan struct{}
	budget *rate.Limiter

	turn turn // of finding out how to log in

	mu        sync.Mutex
	at        netip.Addr // where it was reached
	until     time.Time  // it asked for a pause: nobody asks before that
	failures  int        // since it last answered
	last      time.Time  // until then it is asked after all others
	challenge *challenge
}

// A host may be asked again as often as this at once, and one more time each retryEvery.
const (
	retryBurst = 60
	retryEvery = time.Second
)

func (p *Puller) host(name string) *host {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hosts == nil {
		p.hosts = map[string]*host{}
	}
	if p.hosts[name] == nil {
		p.hosts[name] = &host{turn: newTurn(), slots: make(chan struct{}, cmp.Or(max(0, p.PerHost), 8)), budget: rate.NewLimiter(rate.Every(retryEvery), retryBurst)}
	}
	return p.hosts[name]
}

func (h *host) mayRetry() bool { return h.budget.Allow() }

// enter waits until the host may be asked, and takes one of its slots. leave must be called after that.
func (h *host) enter(ctx context.Context) error {
	for {
		wait := time.Until(h.pause())
		if wait <= 0 {
			break
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *host) leave() { <-h.slots }

func (h *host) pause() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// rest has nobody ask the host for a while.
func (h *host) rest(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until := time.Now().Add(d); until.After(h.until) {
		h.until = until
	}
}

// answered and silent keep book of whether the host answers.
func (h *host) answered(at netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures, h.last, h.at = 0, time.Time{}, at
}

func (h *host) address() netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

// challenged is how the host wants to be logged in to; nil if nobody knows.
func (h *host) challenged() *challenge {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.challenge
}

func (h *host) challengedBy(c challenge) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.challenge = &c
}

func (h *host) silent() {
	h.mu.Lock()
	defer h.mu.Unlock()
	wait := time.Second << min(h.failures, 6)
	h.failures++
	h.last = time.Now().Add(wait/2 + rand.N(wait/2))
}

func (h *host) healthy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	return !now.Before(h.last) && !now.Before(h.until)
}

// healthyFirst puts sources that did not answer a moment ago, or asked for a pause, behind the others:
// a mirror that is down costs its timeout once and not for each image.
func (p *Puller) healthyFirst(sources []mirror.Source) []mirror.Source {
	var first, then []mirror.Source
	for _, s := range sources {
		if p.host(s.Host()).healthy() {
			first = append(first, s)
		} else {
			then = append(then, s)
		}
	}
	return slices.Concat(first, then)
}

// soonest is how long all of the sources ask to be left alone.
func (p *Puller) soonest(sources []mirror.Source) time.Duration {
	var waits []time.Duration
	for _, s := range sources {
		waits = append(waits, max(0, time.Until(p.host(s.Host()).pause())))
	}
	return slices.Min(waits)
}
