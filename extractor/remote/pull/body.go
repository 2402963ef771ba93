// SPDX-License-Identifier: Apache-2.0

package pull

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
	"time"
)

// body is a manifest or a blob of a source. It goes on where it was cut, and ends
// with io.EOF only if it was what its digest says.
type body struct {
	*asking
	ctx  context.Context //nolint:containedctx // an io.Reader gets none
	hash hash.Hash
	read int64
	size int64 // -1 if it is not known
	err  error // that Read returns from now on

	current *answer
	stall   *time.Timer
	since   int64 // bytes since the timer was set
	whole   bool  // it knows no ranges
	cuts    int   // in a row, without worthwhile progress between them
	fresh   int64 // bytes since the last cut
}

// progress is how much of a body makes it worth to wait for more: so much must come
// in Puller.Stall, and so much between two cuts.
const progress = 64 << 10

// open asks for what is wanted, from its start.
func (a *asking) open(ctx context.Context) (*body, error) {
	b := &body{asking: a, ctx: ctx, hash: sha256.New(), size: a.wanted.descriptor.Size}
	resp, err := a.send(ctx, 0)
	if err != nil {
		return nil, err
	}
	b.start(resp)
	return b, nil
}

// start reads from an answer from now on.
func (b *body) start(resp *answer) {
	resp.timer.Stop()
	b.current, b.since = resp, 0
	b.stall = time.AfterFunc(b.stallTime(), func() { resp.cancel(errStalled) })
}

func (b *body) stallTime() time.Duration { return orDefault(b.puller.Stall, 30*time.Second) }

func (b *body) close() {
	if b.current != nil {
		b.stall.Stop()
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
		b.took(p[:n])
		switch {
		case b.read > b.wanted.most && b.size < 0:
			b.err = &SizeError{Limit: b.wanted.most}
		case b.size >= 0 && b.read > b.size, err == io.EOF && b.size >= 0 && b.read < b.size:
			b.err = &DigestError{Want: b.wanted.descriptor.Digest.String(), WantSize: b.size, GotSize: b.read}
		case err == io.EOF:
			b.err = b.verify()
		case err != nil:
			b.err = b.resume(err)
		}
		if b.err != nil && b.err != io.EOF { //nolint:errorlint // the end of a stream is this very error
			return 0, b.err // what came with it is not worth anything
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, b.err
}

// took takes note of bytes.
func (b *body) took(p []byte) {
	b.hash.Write(p)
	n := int64(len(p))
	b.read, b.fresh, b.since = b.read+n, b.fresh+n, b.since+n
	if b.since >= progress {
		b.since = 0
		b.stall.Reset(b.stallTime())
	}
	if b.fresh >= progress {
		b.cuts = 0
	}
}

func (b *body) verify() error {
	want := b.wanted.descriptor.Digest
	if got := fmt.Sprintf("%x", b.hash.Sum(nil)); got != want.Hex {
		return &DigestError{Want: want.String(), Got: want.Algorithm + ":" + got, WantSize: b.size, GotSize: b.read}
	}
	return io.EOF
}

// resume opens the rest of a body that was cut. It returns nil if it can be read on.
func (b *body) resume(cut error) error {
	if cause := context.Cause(b.ctx); cause != nil {
		return cause
	}
	if errors.Is(cut, context.Canceled) {
		cut = errStalled // only its timer cancels an answer
	}
	cut = fmt.Errorf("the body was cut after %d bytes: %w", b.read, cut)
	b.close()
	b.fresh = 0
	retry := b.puller.Retry.orDefaults()
	for {
		b.cuts++
		if b.cuts >= retry.Attempts || !b.host.mayRetry() {
			return cut
		}
		if err := retry.wait(b.ctx, b.cuts, 0); err != nil {
			return errors.Join(cut, err)
		}
		err := b.reopen()
		if err == nil {
			return nil
		}
		if cut = err; !mayPass(b.ctx, err) {
			return cut
		}
	}
}

// reopen asks for the rest, or for all of it again if the server does not do that.
func (b *body) reopen() error {
	from := b.read
	if b.whole {
		from = 0
	}
	resp, err := b.send(b.ctx, from)
	if status, ok := errors.AsType[*StatusError](err); ok && status.Code == http.StatusRequestedRangeNotSatisfiable && !b.whole {
		b.whole = true
		return b.reopen()
	}
	if err != nil {
		return err
	}
	return b.join(resp)
}

// join has an answer continue the body: the answer to a request for the rest, or
// that of a server that sends all of it again, whose beginning must be what was read before.
func (b *body) join(resp *answer) error {
	if resp.StatusCode == http.StatusPartialContent {
		if !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", b.read)) {
			resp.close()
			return fmt.Errorf("it answered a request for the bytes from %d on with others (%.60q)", b.read, resp.Header.Get("Content-Range"))
		}
		b.start(resp)
		return nil
	}
	b.start(resp)
	before, err := b.again()
	if err != nil {
		b.close()
		return err
	}
	if before != fmt.Sprintf("%x", b.hash.Sum(nil)) {
		b.close()
		return &DigestError{Want: b.wanted.descriptor.Digest.String(), WantSize: b.size, GotSize: b.read}
	}
	return nil
}

// again reads what was read before once more, and returns its digest.
func (b *body) again() (string, error) {
	h := sha256.New()
	buffer := make([]byte, 32<<10)
	for left := b.read; left > 0; {
		n, err := b.current.Body.Read(buffer[:min(left, int64(len(buffer)))])
		h.Write(buffer[:n])
		left -= int64(n)
		if b.since += int64(n); b.since >= progress {
			b.since = 0
			b.stall.Reset(b.stallTime())
		}
		if err != nil && left > 0 {
			return "", fmt.Errorf("the body was cut where it had been read before: %w", err)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
