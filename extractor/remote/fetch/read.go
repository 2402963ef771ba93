// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	blobInfo "go.podman.io/image/v5/pkg/blobinfocache/none"
	"go.podman.io/image/v5/types"
)

// Retry is the policy for retryable errors: refused and reset connections, the statuses 408, 429 and 5xx, interrupted bodies.
type Retry struct {
	// Attempts is the maximum number of attempts at a source; default 4. 1 disables retries.
	Attempts int
	// Backoff is the time before the second attempt; it doubles with each attempt, minus a random part of up to one
	// half. Default 500 ms.
	Backoff time.Duration
}

// Each calls read with the sources of the image, opened, in their order, until it returns no error. The error joins a *Error
// for each source. An error that is a *Rejection does not count as a fault of its host.
func (i *Image) Each(ctx context.Context, step string, read func(ctx context.Context, from types.ImageSource) error) error {
	return i.each(ctx, step, func(ctx context.Context, s *source) error {
		if err := read(ctx, s.open); err != nil {
			return &sourceError{err}
		}
		return nil
	})
}

// Rejection is an error about what a source has, and not about its host.
type Rejection struct{ Err error }

// Error implements error.
func (e *Rejection) Error() string { return e.Err.Error() }
func (e *Rejection) Unwrap() error { return e.Err }

// sourceError is the failure of a source, in contrast to an error about verified bytes.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// Manifest returns a manifest or an index of at most limit bytes, verified: the image's if d has its digest, and else one that it
// lists. step is its name in errors: "manifest" or "index". For a tag, it returns the manifest that the tag has now.
func (i *Image) Manifest(ctx context.Context, step string, d v1.Descriptor, limit int64) (raw []byte, err error) {
	err = i.each(ctx, step, func(ctx context.Context, s *source) (err error) {
		instance := (*digest.Digest)(nil)
		if d.Digest != i.Digest() {
			instance = new(digest.Digest(d.Digest.String()))
		}
		raw, _, err = s.open.GetManifest(ctx, instance)
		if err == nil && d.Digest != (v1.Hash{}) {
			err = pageError(raw, ReadVerified(bytes.NewReader(raw), d, limit, func(io.Reader) error { return errVerify }))
		}
		if err != nil && !errors.Is(err, errVerify) {
			return &sourceError{err}
		}
		MeterOf(ctx).Received.Add(int64(len(raw)))
		i.client.Metrics.received(s.host(), "manifests", len(raw))
		return nil
	})
	return raw, err
}

// errVerify makes ReadVerified read all bytes.
var errVerify = errors.New("verify")

// pageError adds the content type to an error about a body that is an HTML page: of a proxy, a captive portal or a login form.
func pageError(raw []byte, err error) error {
	if kind := http.DetectContentType(raw); errors.As(err, new(*DigestError)) && kind == "text/html; charset=utf-8" {
		return fmt.Errorf("received an HTML page, of a proxy or a login form: %w", err)
	}
	return err
}

// Blob reads a blob of the image. step is its name in errors, such as "layer 2 of 5".
//
// body is the blob from its start. It returns io.EOF only after its size and digest were verified; until then its bytes
// are untrusted. If a source failed or served other bytes, read is called again, from the start, with the bytes of
// another source. If read returns nil, Blob returns even if read did not read the body to its end. If read returns an
// error, the rest of body is read and verified: the error counts only for verified bytes.
//
// The error comes from read or ctx, or is or joins a *Error for each source.
func (i *Image) Blob(ctx context.Context, step string, d v1.Descriptor, read func(body io.Reader) error) error {
	return i.each(ctx, step, func(ctx context.Context, s *source) error {
		body, _, err := s.open.GetBlob(ctx, types.BlobInfo{Digest: digest.Digest(d.Digest.String()), Size: d.Size}, blobInfo.NoCache)
		if err != nil {
			return &sourceError{err}
		}
		defer body.Close()
		watched := &watchedBody{body: body, source: s, rest: d.Size, ctx: ctx, metrics: i.client.Metrics}
		readErr, err := readVerified(watched, d, d.Size, read)
		if err != nil {
			return &sourceError{err}
		}
		return readErr
	})
}

// each tries the sources in order, healthy ones first, and tries sources with retryable errors again.
func (i *Image) each(ctx context.Context, step string, read func(context.Context, *source) error) error {
	failures := map[*source]*Error{}
	left := i.sources
	for round := 1; ; round++ {
		var again []*source
		order := i.client.healthyFirst(left)
		for n, s := range order {
			last := round > 1 || !slices.ContainsFunc(order[n+1:], i.client.healthy)
			err := i.from(ctx, s, last, step, read)
			failed, ok := errors.AsType[*Error](err)
			if !ok {
				if err == nil {
					i.reportFailures(ctx, failures)
				}
				return err
			}
			failures[s] = failed
			if failed.retryable(round) {
				again = append(again, s)
			}
		}
		if len(again) == 0 || round >= cmp.Or(i.client.Retry.Attempts, 4) {
			return i.joinFailures(failures)
		}
		if err := i.client.Retry.wait(ctx, round); err != nil {
			return errors.Join(i.joinFailures(failures), fmt.Errorf("getting the %s: waiting for another attempt: %w", step, err))
		}
		left = again
	}
}

// from reads from one source. The error is a *Error if the source failed.
func (i *Image) from(ctx context.Context, s *source, last bool, step string, read func(context.Context, *source) error) error {
	attempt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.watch = i.client.Pace.orDefaults().watch(last, cancel)
	defer s.watch.stop()
	attempt, err := i.connect(s.watch.trace(attempt), s, cancel)
	if err != nil {
		err = &sourceError{err}
	} else {
		err = read(attempt, s)
	}
	if failed, ok := errors.AsType[*sourceError](err); ok {
		s.close()
		switch cause := context.Cause(attempt); {
		case ctx.Err() != nil:
			return fmt.Errorf("getting the %s from %s: %w", step, s.host(), context.Cause(ctx))
		case cause != nil && !errors.Is(failed.error, cause):
			err = cause
		default:
			err = failed.error
		}
		e := i.sourceError(s, step, err)
		i.client.record(s.host(), !e.hostFailed())
		return e
	}
	i.client.record(s.host(), true)
	return err
}

// joinFailures joins the errors of all sources, in their order.
func (i *Image) joinFailures(failures map[*source]*Error) error {
	var errs []error
	for _, s := range i.sources {
		if err := failures[s]; err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// reportFailures reports the failed sources if another source succeeded, each once per image.
func (i *Image) reportFailures(ctx context.Context, failures map[*source]*Error) {
	for _, s := range i.sources {
		err := failures[s]
		switch {
		case err == nil || i.reported[s]:
			continue
		case i.client.OnSourceFailure != nil:
			i.client.OnSourceFailure(ctx, err)
		default:
			logr.FromContextOrDiscard(ctx).Info("Failed to read from a source of an image; another source succeeded",
				"image", i.reference, "source", s.pull.Reference.Name(), "error", err.Error())
		}
		i.reported[s] = true
	}
}

// wait waits after an attempt, counted from 1; it fails immediately if the deadline of ctx is earlier.
func (r Retry) wait(ctx context.Context, attempt int) error {
	d := min(cmp.Or(r.Backoff, 500*time.Millisecond)<<min(attempt-1, 16), time.Minute)
	d = d/2 + rand.N(d/2+1)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return fmt.Errorf("no time is left for another attempt: %w", context.DeadlineExceeded)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unhealthyFor is how long a host is tried last after a failure. Trying a silent host first would cost its time again for each blob.
const unhealthyFor = 2 * time.Minute

// record records whether a host works.
func (c *Client) record(host string, works bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if works {
		delete(c.failed, host)
		return
	}
	if c.failed == nil {
		c.failed = map[string]time.Time{}
	}
	c.failed[host] = time.Now()
}

func (c *Client) healthy(s *source) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, failed := c.failed[s.host()]
	return !failed || time.Since(at) > unhealthyFor
}

// healthyFirst returns the sources with those last that failed recently.
func (c *Client) healthyFirst(sources []*source) (sorted []*source) {
	var failed []*source
	for _, s := range sources {
		if c.healthy(s) {
			sorted = append(sorted, s)
		} else {
			failed = append(failed, s)
		}
	}
	return append(sorted, failed...)
}
