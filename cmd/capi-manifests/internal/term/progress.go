// SPDX-License-Identifier: Apache-2.0

package term

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

// Progress is a Fetcher that writes a line about each image that it has read.
type Progress struct {
	extractor.Fetcher

	w     io.Writer
	start time.Time
	total int

	mu   sync.Mutex
	done int
}

// NewProgress returns a Progress for a number of images.
func NewProgress(w io.Writer, total int, next extractor.Fetcher) *Progress {
	return &Progress{Fetcher: next, w: w, start: time.Now(), total: total}
}

// Fetch implements extractor.Fetcher.
func (p *Progress) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	meter := &fetch.Meter{}
	bundles, err := p.Fetcher.Fetch(fetch.WithMeter(ctx, meter), reference)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	outcome := "read"
	if err != nil {
		outcome = "FAILED"
	}
	fmt.Fprintf(p.w, "[%d/%d] %s %s: %s\n", p.done, p.total, outcome, reference, fetched(meter))
	return bundles, err
}

// Summary writes the totals.
func (p *Progress) Summary(results []extractor.Result) {
	bundles, failed := 0, 0
	for _, result := range results {
		bundles += len(result.Bundles)
		if result.Err != nil {
			failed++
		}
	}
	text := fmt.Sprintf("read %s in %s: %s", Plural(len(results), "image", "images"), time.Since(p.start).Round(10*time.Millisecond), Plural(bundles, "bundle", "bundles"))
	if failed > 0 {
		text += fmt.Sprintf(", %s failed", Plural(failed, "image", "images"))
	}
	fmt.Fprintln(p.w, text)
}

// fetched formats the received and total bytes, such as "412 KiB of 78 MiB, 3 requests".
func fetched(meter *fetch.Meter) string {
	requests, received, size := meter.Requests.Load(), meter.Received.Load(), meter.Size.Load()
	text := bytesText(received)
	switch {
	case requests == 0:
		return "nothing fetched"
	case size > received: // the size does not include the index of the image
		text += " of " + bytesText(size)
	}
	return text + ", " + Plural(int(requests), "request", "requests")
}

// bytesText formats a size, such as "412 KiB".
func bytesText(n int64) string {
	size, unit := float64(n), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB"} {
		if size < 1000 {
			break
		}
		size, unit = size/1024, larger
	}
	if size < 10 && unit != "B" {
		return fmt.Sprintf("%.1f %s", size, unit)
	}
	return fmt.Sprintf("%.0f %s", size, unit)
}
