// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-logr/logr"

	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
)

// reading is the reading of a resource of an image from sources.
type reading struct {
	image    *Image
	sources  []mirror.Source
	resource resource
	read     func(io.Reader) error
	failures map[mirror.Source]*Error // the last failure of each source
}

// all tries the sources in order, healthy ones first, and tries sources with retryable
// errors again.
func (r reading) all(ctx context.Context) error {
	client := r.image.client
	retry := client.Retry.orDefaults()
	left := r.sources
	for round := 1; ; round++ {
		if r.exhausted() {
			r.failAll()
			return r.joinFailures(ctx)
		}
		var again []mirror.Source
		order := client.healthyFirst(left)
		for n, s := range order {
			more := r.resource.more || round == 1 && client.anyHealthy(order[n+1:])
			err := r.from(ctx, s, r.image.allowance(more))
			failed, ok := errors.AsType[*Error](err)
			if !ok {
				if err == nil {
					r.reportFailures(ctx)
				}
				return err
			}
			r.failures[s] = failed
			if retryable(ctx, err, round) && !r.image.allowance(false).empty() {
				again = append(again, s)
			}
		}
		if len(again) == 0 || round >= retry.Attempts {
			return r.joinFailures(ctx)
		}
		if err := retry.wait(ctx, round, client.shortestPause(again)); err != nil {
			return errors.Join(r.joinFailures(ctx), fmt.Errorf("getting the %s: waiting for another attempt: %w", r.resource.name, err))
		}
		left = again
	}
}

// exhausted reports whether the image has no time left, and none of the sources is healthy.
func (r reading) exhausted() bool {
	return r.image.allowed.patience.empty() && !r.image.client.anyHealthy(r.sources)
}

// failAll adds an error for each source that was not tried, because others waited for it too long.
func (r reading) failAll() {
	for _, s := range r.sources {
		if r.failures[s] == nil {
			r.failures[s] = (&request{image: r.image, source: s, resource: r.resource}).sourceError(errHostStalled)
		}
	}
}

// joinFailures joins the errors of all sources, in their order.
func (r reading) joinFailures(ctx context.Context) error {
	if ctx.Err() != nil && len(r.failures) == 0 {
		return context.Cause(ctx)
	}
	var errs []error
	for _, s := range r.sources {
		if err := r.failures[s]; err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// reportFailures reports the failed sources if another source succeeded, each once per image.
func (r reading) reportFailures(ctx context.Context) {
	i := r.image
	for _, s := range r.sources {
		err := r.failures[s]
		i.mu.Lock()
		told := err == nil || i.reported[s.Image.Name()]
		i.reported[s.Image.Name()] = i.reported[s.Image.Name()] || err != nil
		i.mu.Unlock()
		switch {
		case told:
		case i.client.OnSourceFailure != nil:
			i.client.OnSourceFailure(ctx, err)
		default:
			logr.FromContextOrDiscard(ctx).Info("Failed to read from a source of an image; another source succeeded",
				"image", i.reference, "source", s.Image.Context().Name(), "error", err.Error())
		}
	}
}

// from reads the resource from one source. The error is a *Error if the source failed.
func (r reading) from(ctx context.Context, s mirror.Source, allowed *allowance) error {
	allowed.start()
	a := &request{image: r.image, source: s, resource: r.resource, host: r.image.client.host(s.Host()), allowance: allowed}
	body, err := a.openBody(ctx)
	if err != nil {
		return a.classify(ctx, err)
	}
	defer body.close()
	err = r.read(body)
	if err != nil && body.err == nil {
		_, _ = io.Copy(io.Discard, body) // its error is in body.err
	}
	if body.err != nil && !errors.Is(body.err, io.EOF) {
		return a.classify(ctx, body.err)
	}
	return err
}
