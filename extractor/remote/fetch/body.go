// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"io"
	"time"
)

// body is a manifest or a blob of a source. It resumes where the connection was interrupted, and ends
// with io.EOF only after its digest was verified.
type body struct {
	*request
	*verifier
	ctx context.Context //nolint:containedctx // io.Reader has no context
	err error           // of all further calls of Read

	current           *response
	stallTimer        *time.Timer
	sinceTimer        int64     // bytes since the stall timer was set
	timerSet          time.Time // when it was set
	noRanges          bool      // the server does not support ranges
	interruptions     int       // consecutive ones, without minProgress between them
	stalls            int       // interruptions by the stall timer
	sinceInterruption int64     // bytes since the last interruption
}

// openBody requests the resource, from its start.
func (r *request) openBody(ctx context.Context) (*body, error) {
	b := &body{request: r, ctx: ctx, verifier: newVerifier(r.resource.descriptor, r.resource.limit)}
	resp, err := r.sendAuthorized(ctx, 0)
	if err != nil {
		return nil, err
	}
	b.start(resp)
	return b, nil
}

// start continues the body with a response.
func (b *body) start(resp *response) {
	resp.timer.Stop()
	b.current = resp
	b.stallTimer = time.AfterFunc(b.stallTimeout(), func() { resp.cancel(errStalled) })
	b.sinceTimer, b.timerSet = 0, time.Now()
}

// stallTimeout returns the current timeout for minProgress bytes.
func (b *body) stallTimeout() time.Duration {
	return b.budget.limit(durationOr(b.client.StallTimeout, defaultStallTimeout))
}

func (b *body) close() {
	if b.current != nil {
		b.stallTimer.Stop()
		b.current.close()
	}
	b.current = nil
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	for b.err == nil {
		if len(p) == 0 {
			return 0, nil
		}
		n, err := b.current.Body.Read(p)
		b.progress(n)
		b.err = b.add(p[:n])
		switch {
		case b.err != nil:
		case err == io.EOF:
			b.err = b.finish()
		case err != nil:
			b.err = b.resume(err)
		}
		if b.err != nil && b.err != io.EOF { //nolint:errorlint // the end of a stream is this very error
			return 0, b.err // its bytes are unverified
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, b.err
}

// finish verifies the body at its end.
func (b *body) finish() error {
	err := b.end()
	if err == io.EOF { //nolint:errorlint // the end of a stream is this very error
		b.host.recordSuccess()
		return err
	}
	if b.want.Size >= 0 && b.verifier.read < b.want.Size {
		b.host.recordStall()
	}
	return b.current.describePage(err)
}
