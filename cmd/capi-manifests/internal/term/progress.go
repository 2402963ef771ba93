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

// interval is the time between the lines about an image that is still read.
const interval = 10 * time.Second

// Progress is a Fetcher that writes a line about each image that it has read, and regularly about each that it still reads.
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
	ticker, ended := time.NewTicker(interval), make(chan struct{})
	defer ticker.Stop()
	defer close(ended)
	go func() {
		for {
			select {
			case <-ticker.C:
				p.line(0, "reading", reference, meter)
			case <-ended:
				return
			}
		}
	}()
	bundles, err := p.Fetcher.Fetch(fetch.WithMeter(ctx, meter), reference)
	outcome := "read"
	if err != nil {
		outcome = "FAILED"
	}
	p.line(1, outcome, reference, meter)
	return bundles, err
}

// line counts done images, and writes a line about an image.
func (p *Progress) line(done int, state, reference string, meter *fetch.Meter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += done
	fmt.Fprintf(p.w, "[%d/%d] %s %s: %s\n", p.done, p.total, state, reference, fetched(meter))
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
