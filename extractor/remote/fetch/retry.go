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

// Retry is the policy for retryable errors: connections that are refused or reset, the statuses 408, 429 and 5xx,
// interrupted bodies. The Retry-After header of a registry is honoured.
type Retry struct {
	// Attempts is the largest number of requests; default 4. 1 disables retries.
	Attempts int
	// Backoff is the time before the second attempt; it doubles with each attempt, and
	// is reduced by a random part of up to one half. Default 500 ms.
	Backoff time.Duration
	// MaxBackoff is the longest time to wait, also for Retry-After; default 1 minute.
	MaxBackoff time.Duration
}

func (r Retry) orDefaults() Retry {
	return Retry{Attempts: cmp.Or(r.Attempts, 4), Backoff: cmp.Or(r.Backoff, 500*time.Millisecond), MaxBackoff: cmp.Or(r.MaxBackoff, time.Minute)}
}

// wait waits after an attempt, counted from 1, at least as long as the server asked for.
func (r Retry) wait(ctx context.Context, attempt int, asked time.Duration) error {
	wait := r.Backoff << min(attempt-1, 16)
	wait = min(max(wait/2+rand.N(wait/2+1), asked), r.MaxBackoff)
	return sleep(ctx, wait)
}

// sleep waits for d or the end of ctx; it fails at once if the deadline of ctx is earlier.
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

// retryable reports whether asking a source again may help. Other bytes are fetched once more:
// a transmission error is as likely as a wrong copy.
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
	return !errors.Is(err, errRedirects) && !errors.Is(err, errRetryBudget) && !errors.Is(err, errNoRealm) && !errors.Is(err, errNoToken)
}

// retryAfter is the time that a server asks to wait, 0 for none. now is for a header with a date.
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
