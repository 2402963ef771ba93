// SPDX-License-Identifier: Apache-2.0

package pull

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

	"github.com/capi-installer/capi-installer/extractor/remote/network"
)

// Retry says how often a request is repeated that failed for a reason that may
// pass: a connection that breaks or is refused, 408, 429 and the 5xx statuses,
// a body that is cut. Where a registry says how long to wait (Retry-After), that is done.
type Retry struct {
	// Attempts is the number of requests in all; default 4. 1 never repeats.
	Attempts int
	// Wait is the time before the second attempt; it doubles with each. The
	// real time is between a half and the whole of it. Default 500 ms.
	Wait time.Duration
	// Most is the longest time to wait, whatever a registry says; default 1 minute.
	Most time.Duration
}

func (r Retry) orDefaults() Retry {
	return Retry{Attempts: cmp.Or(r.Attempts, 4), Wait: cmp.Or(r.Wait, 500*time.Millisecond), Most: cmp.Or(r.Most, time.Minute)}
}

// wait waits after an attempt, counted from 1: as long as the server asked for, if it did.
func (r Retry) wait(ctx context.Context, attempt int, asked time.Duration) error {
	wait := r.Wait << min(attempt-1, 16)
	wait = min(max(wait/2+rand.N(wait/2+1), asked), r.Most)
	return sleep(ctx, wait)
}

// sleep waits until the time is over or ctx is, if it is not clear before that ctx will be first.
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

// mayPass says whether what went wrong at a source may be gone the next time.
func mayPass(ctx context.Context, err error) bool {
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
	for _, final := range []any{
		new(*tls.CertificateVerificationError), new(tls.RecordHeaderError), new(*network.PlainError), new(*network.AddressError),
		new(*network.ProxyError), new(*DigestError), new(*SizeError),
	} {
		if errors.As(err, final) {
			return false
		}
	}
	return !errors.Is(err, errRedirects) && !errors.Is(err, errBudget) && !errors.Is(err, errNoRealm) && !errors.Is(err, errNoToken)
}

// retryAfter is how long a server asks to wait: 0 if it does not. now is for an answer that names a time.
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
