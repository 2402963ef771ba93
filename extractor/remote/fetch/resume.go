// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// minProgress is the number of bytes between two interruptions that counts as progress.
const minProgress = 64 << 10

// progress counts the bytes since the last interruption.
func (b *body) progress(n int) {
	b.sinceInterruption += int64(n)
	if b.sinceInterruption >= minProgress {
		b.interruptions = 0
	}
}

// resume opens the rest of an interrupted body. It returns nil if reading can continue. A source that stalled is not
// asked for the rest while another one is left.
func (b *body) resume(cut error) error {
	if cause := context.Cause(b.ctx); cause != nil {
		return cause
	}
	late := errors.Is(cut, errStalled) || errors.Is(cut, errSlow)
	cut = fmt.Errorf("the body was interrupted after %d bytes: %w", b.verifier.read, cut)
	b.close()
	if late && b.request.allowance.leaves {
		return cut
	}
	if !late {
		b.request.host.recordStall()
	}
	b.sinceInterruption = 0
	retry := b.request.image.client.Retry.orDefaults()
	for {
		b.interruptions++
		if b.interruptions >= retry.Attempts || b.request.allowance.empty() {
			return cut
		}
		started := time.Now()
		if err := retry.wait(b.ctx, b.interruptions, 0); err != nil {
			return errors.Join(cut, err)
		}
		b.request.allowance.wait(time.Since(started), 0)
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
	resp, err := b.request.sendAuthorized(b.ctx, from)
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
		b.current = resp
		return nil
	}
	b.current = resp
	before, err := b.rehash()
	if err != nil {
		b.close()
		return err
	}
	if before != b.verifier.sum().Hex {
		b.close()
		return &DigestError{Want: b.verifier.want.Digest.String(), WantSize: b.verifier.want.Size, GotSize: b.verifier.read}
	}
	return nil
}

// rehash reads the beginning again, up to the interruption, and returns its digest.
func (b *body) rehash() (string, error) {
	h := b.verifier.newHash()
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
