// SPDX-License-Identifier: Apache-2.0

package remote

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
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return fmt.Errorf("no time is left for another attempt: %w", context.DeadlineExceeded)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retrying repeats requests. It sees those of the login too.
type retrying struct {
	next  http.RoundTripper
	retry Retry
}

func (r *retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := r.next.RoundTrip(req)
		if attempt >= r.retry.Attempts || req.Body != nil || !mayPass(req.Context(), resp, err) {
			return resp, err
		}
		if waitErr := r.retry.wait(req.Context(), attempt, retryAfter(resp, time.Now())); waitErr != nil {
			return resp, err
		}
		if resp != nil {
			resp.Body.Close()
		}
	}
}

// mayPass says whether what went wrong may be gone the next time.
func mayPass(ctx context.Context, resp *http.Response, err error) bool {
	if err != nil {
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
		_, notTLS := errors.AsType[tls.RecordHeaderError](err)
		return ctx.Err() == nil && !untrusted && !notTLS && !errors.Is(err, errPlain)
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// retryAfter is how long a server asks to wait: 0 if it does not. now is for an answer that names a time.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	if resp == nil {
		return 0
	}
	value := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), 24*3600)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
