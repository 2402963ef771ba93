// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"time"
)

// Pace limits the time that silent and slow sources cost. The zero value is right in a cluster.
//
// A source is left if it is silent. While another source is left, a source is also left if it is slow; the last source may take
// any time.
type Pace struct {
	// Silence is the maximum time without data; default 15 seconds. The last source gets it twice: after the first time, its
	// connection is closed, and the library continues a body with another connection.
	Silence time.Duration
	// Detour is the time that an image may take at a source slower than Rate while another source is left; default 40 seconds.
	Detour time.Duration
	// Rate is in bytes per second; default 1 MiB/s.
	Rate int64
}

func (p Pace) orDefaults() Pace {
	return Pace{Silence: cmp.Or(p.Silence, 15*time.Second), Detour: cmp.Or(p.Detour, 40*time.Second), Rate: cmp.Or(p.Rate, 1<<20)}
}

var (
	errSilent = errors.New("timed out waiting for data")
	errSlow   = errors.New("timed out: the source is too slow, and another source is left")
)

// watch ends an attempt at a source after a time of silence.
type watch struct {
	Pace
	last   bool // no other source is left
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	conn  net.Conn // of the last request
	body  bool     // a body is being read
	again bool     // it was silent once since the last data
	ended bool
}

func (p Pace) watch(last bool, cancel context.CancelCauseFunc) *watch {
	w := &watch{Pace: p, last: last, cancel: cancel}
	w.mu.Lock() // timer
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(p.Silence, w.silent)
	return w
}

// silent is called after a time of silence.
func (w *watch) silent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last || w.again {
		w.cancel(errSilent)
		return
	}
	w.again = true
	w.timer.Reset(w.Silence)
	if !w.body {
		return
	}
	if conn, ok := w.conn.(*tls.Conn); ok {
		w.conn = conn.NetConn()
	}
	if conn, ok := w.conn.(*net.TCPConn); ok {
		_ = conn.CloseRead() // for the library, the connection broke: it continues the body
	}
}

// data is called with each data of the source; body means that it is the body of a blob.
func (w *watch) data(body bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.body = w.body || body
	if !w.ended {
		w.again = false
		w.timer.Reset(w.Silence)
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
}

// trace returns a context whose requests report their connections and the start of their responses.
func (w *watch) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.conn = got.Conn
		},
		GotFirstResponseByte: func() { w.data(false) },
	})
}

// speed is the time that an image waited for the bytes of a source.
type speed struct {
	took  time.Duration
	bytes int64
}

// hopeless reports whether the rest of a blob is not worth waiting for.
func (w *watch) hopeless(s speed, rest int64) bool {
	if w.last || s.took < w.Silence/3 || rest <= 0 {
		return false
	}
	rate := float64(max(s.bytes, 1)) / s.took.Seconds()
	return rate < float64(w.Rate) && s.took.Seconds()+float64(rest)/rate > w.Detour.Seconds()
}

// watchedBody is the body of a blob of a source.
type watchedBody struct {
	body    io.Reader
	source  *source
	rest    int64
	ctx     context.Context //nolint:containedctx // io.Reader has no context
	metrics *Metrics
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	started := time.Now()
	n, err := b.body.Read(p)
	s := b.source
	s.speed.took += time.Since(started)
	s.speed.bytes += int64(n)
	b.rest -= int64(n)
	if n > 0 {
		s.watch.data(true)
	}
	MeterOf(b.ctx).Received.Add(int64(n))
	b.metrics.received(s.host(), "blobs", n)
	switch {
	case err != nil && err != io.EOF && context.Cause(b.ctx) != nil:
		err = context.Cause(b.ctx)
	case err == nil && s.watch.hopeless(s.speed, b.rest):
		err = errSlow
	}
	if err == errSilent || err == errSlow { //nolint:errorlint // these very errors
		err = fmt.Errorf("%w: %d bytes in %s", err, s.speed.bytes, s.speed.took.Round(time.Millisecond))
	}
	return n, err
}
