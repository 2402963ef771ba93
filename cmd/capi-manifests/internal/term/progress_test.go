// SPDX-License-Identifier: Apache-2.0

package term

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

func TestProgress_LineForEachImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := NewProgress(&out, 2, fetching(func(ctx context.Context, reference string) error {
			if reference == "example.com/b" {
				return errors.New("gone")
			}
			meter := fetch.MeterOf(ctx)
			meter.Requests.Store(3)
			meter.Received.Store(412 << 10)
			meter.Size.Store(78 << 20)
			return nil
		}))
		_, errA := p.Fetch(t.Context(), "example.com/a")
		_, errB := p.Fetch(t.Context(), "example.com/b")
		if errA != nil || errB == nil {
			t.Errorf("got %v, %v", errA, errB)
		}
		p.Summary([]extractor.Result{{Bundles: make([]extractor.Bundle, 2)}, {Err: errors.New("gone")}})
		want := "[1/2] read example.com/a: 412 KiB of 78 MiB, 3 requests\n[2/2] FAILED example.com/b: nothing fetched\nread 2 images in 0s: 2 bundles, 1 image failed\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestProgress_SlowImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := NewProgress(&out, 1, fetching(func(ctx context.Context, _ string) error {
			for range 25 {
				time.Sleep(time.Second)
				fetch.MeterOf(ctx).Received.Add(100 << 10)
			}
			fetch.MeterOf(ctx).Requests.Store(3)
			return nil
		}))
		if _, err := p.Fetch(t.Context(), "example.com/a"); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(out.String(), "[0/1] reading example.com/a: "); lines != 2 || !strings.HasSuffix(out.String(), "[1/1] read example.com/a: 2.4 MiB, 3 requests\n") {
			t.Errorf("got\n%s", out.String())
		}
	})
}

type fetching func(context.Context, string) error

func (f fetching) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	return nil, f(ctx, reference)
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 KiB", 1536: "1.5 KiB", 421888: "412 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", 1 << 42: "4096 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
