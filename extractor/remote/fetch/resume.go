// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// minProgress is the number of bytes that counts as progress: it must arrive within Client.StallTimeout, and between
// two interruptions.
const minProgress = 64 << 10

// maxStalls is the number of stalls of one body after which another source is tried, even if the body progresses.
const maxStalls = 2

// progress restarts the stall timer after minProgress bytes.
func (b *body) progress(n int) {
	b.sinceInterruption += int64(n)
	if b.sinceTimer += int64(n); b.sinceTimer >= minProgress {
		b.budget.refill()
		b.sinceTimer, b.timerSet = 0, time.Now()
		b.stallTimer.Reset(b.stallTimeout())
	}
	if b.sinceInterruption >= minProgress {
		b.interruptions = 0
	}
}

// resume opens the rest of an interrupted body. It returns nil if reading can continue.
func (b *body) resume(cut error) error {
	if cause := context.Cause(b.ctx); cause != nil {
		return cause
	}
	if errors.Is(cut, context.Canceled) {
		cut = errStalled // only the stall timer cancels a response
	}
	if errors.Is(cut, errStalled) {
		b.stalls++
	}
	b.host.recordStall()
	b.budget.spend(time.Since(b.timerSet))
	cut = fmt.Errorf("the body was interrupted after %d bytes: %w", b.verifier.read, cut)
	b.close()
	if b.stalls >= maxStalls && !b.last {
		return cut
	}
	b.sinceInterruption = 0
	retry := b.client.Retry.orDefaults()
	for {
		b.interruptions++
		switch {
		case b.budget.empty():
			return fmt.Errorf("%w: %w", errSourceBudget, cut)
		case b.interruptions >= retry.Attempts || !b.host.allowRetry():
			return cut
		}
		if err := retry.wait(b.ctx, b.interruptions, 0); err != nil {
			return errors.Join(cut, err)
		}
		err := b.reopen()
		if err == nil {
			return nil
		}
		if cut = err; !retryable(b.ctx, err, 2) {
			return cut
		}
	}
}

// reopen requests the rest, or the whole body if the server does not support ranges.
func (b *body) reopen() error {
	from := b.verifier.read
	if b.noRanges {
		from = 0
	}
	resp, err := b.sendAuthorized(b.ctx, from)
	if status, ok := errors.AsType[*StatusError](err); ok && status.Code == http.StatusRequestedRangeNotSatisfiable && !b.noRanges {
		b.noRanges = true
		return b.reopen()
	}
	if err != nil {
		return err
	}
	return b.continueWith(resp)
}

// continueWith continues the body with the response to a request for the rest, or with the whole body, whose beginning
// must equal the bytes that were read before.
func (b *body) continueWith(resp *response) error {
	if resp.StatusCode == http.StatusPartialContent {
		if !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", b.verifier.read)) {
			resp.close()
			return fmt.Errorf("invalid Content-Range %.60[2]q in the response to a request for the bytes from %[1]d on", b.verifier.read, resp.Header.Get("Content-Range"))
		}
		b.start(resp)
		return nil
	}
	b.start(resp)
	before, err := b.rehash()
	if err != nil {
		b.close()
		return err
	}
	if before != b.sum().Hex {
		b.close()
		return &DigestError{Want: b.want.Digest.String(), WantSize: b.want.Size, GotSize: b.verifier.read}
	}
	return nil
}

// rehash reads the beginning again, up to the interruption, and returns its digest.
func (b *body) rehash() (string, error) {
	h := sha256.New()
	buffer := make([]byte, 32<<10)
	for left := b.verifier.read; left > 0; {
		n, err := b.current.Body.Read(buffer[:min(left, int64(len(buffer)))])
		h.Write(buffer[:n])
		left -= int64(n)
		b.progress(n)
		if err != nil && left > 0 {
			return "", fmt.Errorf("the body was interrupted again: %w", err)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
