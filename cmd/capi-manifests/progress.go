// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
)

// progress tells a person who waits which images were read: a line for each on a
// terminal, and one at the end everywhere.
type progress struct {
	w     io.Writer
	live  bool
	start time.Time
	total int

	mu   sync.Mutex
	done int
}

func newProgress(w io.Writer, images imagesjson.Images) *progress {
	references := map[string]bool{}
	for _, image := range images {
		references[image.Reference] = true
	}
	return &progress{w: w, live: isTerminal(w), start: time.Now(), total: len(references)}
}

func (p *progress) step(reference string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if !p.live {
		return
	}
	outcome := "read"
	if err != nil {
		outcome = "FAILED"
	}
	fmt.Fprintf(p.w, "[%d/%d] %s %s\n", p.done, p.total, outcome, reference)
}

func (p *progress) end(results []extractor.Result) {
	bundles, failed := 0, 0
	for _, result := range results {
		bundles += len(result.Bundles)
		if result.Err != nil {
			failed++
		}
	}
	text := fmt.Sprintf("read %d images in %s: %d bundles", len(results), time.Since(p.start).Round(10*time.Millisecond), bundles)
	if failed > 0 {
		text += fmt.Sprintf(", %d images could not be read", failed)
	}
	fmt.Fprintln(p.w, text)
}

// reporting is a Fetcher that reports each image.
type reporting struct {
	extractor.Fetcher
	progress *progress
}

// Fetch implements extractor.Fetcher.
func (r *reporting) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	bundles, err := r.Fetcher.Fetch(ctx, reference)
	r.progress.step(reference, err)
	return bundles, err
}
