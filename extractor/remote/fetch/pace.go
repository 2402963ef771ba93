// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Pace limits the time that silent and slow sources cost. The zero value is right in a cluster.
//
// Reading an image loses time while it waits for bytes. Bytes earn time back, as much as a source with the lowest
// acceptable rate needs for them, but not for a wait that ended without any: that time is lost for good. So a sound
// source loses none, even with the largest image, and all others together cost at most about Detour and Patience, over
// all steps and attempts. The first seconds of a request are free if there is a response, because
// many small requests to a distant registry are sound. Pauses that a registry requests with Retry-After are also free.
type Pace struct {
	// Silence is the maximum time of a request without data, before its response or in its body; default 15 seconds.
	Silence time.Duration
	// Detour is the time that an image may lose at sources while another source is left; default 20 seconds. A source
	// is also left if the rest of a response, at its rate so far, would lose more.
	Detour time.Duration
	// Patience is the time that an image may lose when no other source is left; default 30 seconds.
	Patience time.Duration
	// Rate is the lowest acceptable rate in bytes per second when no other source is left; default 256 KiB/s. While
	// another one is left, it is four times as high.
	Rate int64
}

func (p Pace) orDefaults() Pace {
	return Pace{
		Silence: cmp.Or(p.Silence, 15*time.Second), Detour: cmp.Or(p.Detour, 20*time.Second), Patience: cmp.Or(p.Patience, 30*time.Second),
		Rate: cmp.Or(p.Rate, 256<<10),
	}
}

// grace is the free time of a request with a response.
func (p Pace) grace() time.Duration { return p.Silence / 8 }

// least is the time that each source of a resource gets, even if others have used up the allowance. The rate of a source
// is known after this time.
func (p Pace) least() time.Duration { return p.Silence / 3 }

// allowances are the times that reading one image may lose.
type allowances struct {
	detour   *allowance // while another source is left
	patience *allowance
}

func (p Pace) allowances() allowances {
	return allowances{
		detour:   &allowance{Pace: p, left: p.Detour, most: p.Detour, rate: 4 * p.Rate, leaves: true},
		patience: &allowance{Pace: p, left: p.Patience, most: p.Patience, rate: p.Rate},
	}
}

// allowance is the time that an image may still lose. It is safe for concurrent use.
type allowance struct {
	Pace
	rate   int64 // bytes per second that lose no time
	leaves bool  // another source is left

	mu   sync.Mutex
	left time.Duration
	most time.Duration // limit of left: the time that was not lost for good
}

// timeFor returns the time that bytes earn.
func (a *allowance) timeFor(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / float64(a.rate) * float64(time.Second))
}

// wait records a wait that ended with bytes.
func (a *allowance) wait(d time.Duration, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = min(a.left-d+a.timeFor(bytes), a.most)
}

// lose records a wait that ended without data.
func (a *allowance) lose(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most -= d
	a.left = min(a.left-d, a.most)
}

// start grants the next source its least time.
func (a *allowance) start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most = max(a.most, a.least())
	a.left = max(a.left, a.least())
}

// empty reports whether no time is left.
func (a *allowance) empty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left <= 0
}

// timeout returns the time to wait for data, and the error if there is none by then.
func (a *allowance) timeout(silent error) (time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left < a.Silence {
		return max(a.left, 0), errSlow
	}
	return a.Silence, silent
}

// hopeless reports whether the rest of a response is not worth waiting for, because another source is left. Its
// first bytes took the given time.
func (a *allowance) hopeless(bytes, rest int64, took time.Duration) bool {
	if !a.leaves || took < a.least() || rest <= 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	needed := time.Duration(float64(rest) / float64(max(bytes, 1)) * float64(took))
	return needed-a.timeFor(rest) > a.left
}

// pacedBody is the body of a response. Its reads fail with errStalled or errSlow when the allowance has no time for them.
type pacedBody struct {
	io.ReadCloser
	allowance *allowance
	cancel    context.CancelCauseFunc // of the request
	ctx       context.Context         //nolint:containedctx // of the request; io.Reader has no context
	rest      int64                   // bytes; negative if unknown
	stalled   func()                  // is called after a timeout

	read int64
	took time.Duration
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	limit, late := b.allowance.timeout(errStalled)
	started := time.Now()
	timer := time.AfterFunc(limit, func() { b.cancel(late) })
	n, err := b.ReadCloser.Read(p)
	timer.Stop()
	d := time.Since(started)
	b.read, b.rest, b.took = b.read+int64(n), b.rest-int64(n), b.took+d
	if err != nil && err != io.EOF && context.Cause(b.ctx) != nil {
		b.allowance.lose(d)
		return n, b.late(context.Cause(b.ctx))
	}
	b.allowance.wait(d, int64(n))
	if err == nil && b.allowance.hopeless(b.read, b.rest, b.took) {
		return n, b.late(errSlow)
	}
	return n, err
}

// late returns the error of a timeout, with the rate so far.
func (b *pacedBody) late(err error) error {
	if err != errStalled && err != errSlow { //nolint:errorlint // these very errors
		return err
	}
	b.stalled()
	return fmt.Errorf("%w: %d bytes in %s", err, b.read, b.took.Round(time.Millisecond))
}
