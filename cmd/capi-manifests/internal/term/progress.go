// SPDX-License-Identifier: Apache-2.0

package term

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

// progress reports pulled images: with a line for each pulled image, and on a
// terminal with a bar for each image that is being pulled.
type progress struct {
	w     io.Writer
	bars  *mpb.Progress // nil without a terminal
	start time.Time
	total int

	mu   sync.Mutex
	done int
}

// NewProgress returns a display of the progress of total steps.
func NewProgress(w io.Writer, total int) *progress {
	p := &progress{w: w, start: time.Now(), total: total}
	if IsTerminal(w) {
		p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(20))
	}
	return p
}

// Fetch reads an image and shows its progress.
func (p *progress) Fetch(ctx context.Context, next extractor.Fetcher, reference string) ([]extractor.Bundle, error) {
	meter := &fetch.Meter{}
	hide := p.show(reference, meter)
	bundles, err := next.Fetch(fetch.WithMeter(ctx, meter), reference)
	p.step(reference, meter, err) // before the last bar goes: without a bar, lines can get lost
	hide()
	return bundles, err
}

// show shows a bar until hide is called.
func (p *progress) show(reference string, meter *fetch.Meter) (hide func()) {
	if p.bars == nil {
		return func() {}
	}
	// A narrow terminal cuts the end of the line: the reference.
	bar := p.bars.AddBar(0, mpb.BarRemoveOnComplete(), mpb.AppendDecorators(
		decor.Any(func(decor.Statistics) string { return fetched(meter) }, decor.WCSyncSpaceR),
		decor.Name(shortReference(reference))))
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				bar.SetTotal(max(meter.Size.Load(), meter.Received.Load()+1), false)
				bar.SetCurrent(meter.Received.Load())
			}
		}
	}()
	return func() {
		close(ended)
		<-stopped
		bar.Abort(true)
		bar.Wait()
	}
}

// shortReference returns a reference with the first digits of its digest.
func shortReference(reference string) string {
	repository, digest, found := strings.Cut(reference, "@sha256:")
	if !found {
		return reference
	}
	return repository + "@sha256:" + digest[:min(12, len(digest))]
}

// step writes a line about an image that was read, or failed.
func (p *progress) step(reference string, meter *fetch.Meter, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	w := p.w
	if p.bars != nil {
		w = p.bars // above the bars
	}
	outcome := "read"
	if err != nil {
		outcome = "FAILED"
	}
	fmt.Fprintf(w, "[%d/%d] %s %s: %s\n", p.done, p.total, outcome, reference, fetched(meter))
}

// End waits until all output is written.
func (p *progress) End() {
	if p.bars != nil {
		p.bars.Wait()
	}
}

// Summary writes the totals.
func (p *progress) Summary(results []extractor.Result) {
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
	if requests == 1 {
		return text + ", 1 request"
	}
	return fmt.Sprintf("%s, %d requests", text, requests)
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

// Reporting is a Fetcher that reports each image.
type Reporting struct {
	extractor.Fetcher
	Progress *progress
}

// Fetch implements extractor.Fetcher.
func (r *Reporting) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	return r.Progress.Fetch(ctx, r.Fetcher, reference)
}
