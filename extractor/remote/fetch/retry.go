// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/capi-installer/capi-installer/extractor/remote/transport"
)

// Retry is the policy for retryable errors: refused and reset connections, the statuses 408, 429 and 5xx, interrupted
// bodies. It honors the Retry-After header of a registry.
type Retry struct {
	// Attempts is the maximum number of requests; default 4. 1 disables retries.
	Attempts int
	// Backoff is the time before the second attempt; it doubles with each attempt, minus a random part of up to one
	// half. Default 500 ms.
	Backoff time.Duration
	// MaxBackoff is the maximum time to wait, also for Retry-After; default 1 minute.
	MaxBackoff time.Duration
}

func (r Retry) orDefaults() Retry {
	return Retry{Attempts: cmp.Or(r.Attempts, 4), Backoff: cmp.Or(r.Backoff, 500*time.Millisecond), MaxBackoff: cmp.Or(r.MaxBackoff, time.Minute)}
}

// wait waits after an attempt, counted from 1, at least as long as the server requested.
func (r Retry) wait(ctx context.Context, attempt int, asked time.Duration) error {
	wait := r.Backoff << min(attempt-1, 16)
	wait = min(max(wait/2+rand.N(wait/2+1), asked), r.MaxBackoff)
	return sleep(ctx, wait)
}

// sleep waits for d or the end of ctx; it fails immediately if the deadline of ctx is earlier.
func sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return fmt.Errorf("no time is left for another attempt: %w", context.DeadlineExceeded)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retryable reports whether another request to a source can succeed. Wrong bytes are fetched a second time: a
// transmission error is as likely as a wrong copy.
func retryable(ctx context.Context, err error, attempt int) bool {
	if ctx.Err() != nil {
		return false
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		switch status.Code {
		case http.StatusRequestTimeout, http.StatusTooManyRequests,
			http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	if errors.As(err, new(*DigestError)) {
		return attempt == 1
	}
	for _, final := range []any{
		new(*tls.CertificateVerificationError), new(tls.RecordHeaderError), new(*transport.PlainHTTPError), new(*transport.AddressError),
		new(*transport.ProxyError), new(*SizeError),
	} {
		if errors.As(err, final) {
			return false
		}
	}
	return !errors.Is(err, errRedirects) && !errors.Is(err, errNoRealm) && !errors.Is(err, errNoToken)
}

// retryAfter returns the pause that a server requests, or 0. now is for a header with a date.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	value := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), 24*3600)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
