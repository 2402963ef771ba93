// SPDX-License-Identifier: Apache-2.0

package term

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vbauerster/mpb/v8"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

func TestProgress_LineForEachImage(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out, 2)
	meter := &fetch.Meter{}
	meter.Requests.Store(3)
	meter.Received.Store(412 << 10)
	meter.Size.Store(78 << 20)
	p.step("example.com/a", meter, nil)
	p.step("example.com/b", &fetch.Meter{}, errors.New("gone"))
	p.End()
	p.Summary([]extractor.Result{{Bundles: make([]extractor.Bundle, 2)}, {Err: errors.New("gone")}})
	want := "[1/2] read example.com/a: 412 KiB of 78 MiB, 3 requests\n[2/2] FAILED example.com/b: nothing fetched\nread 2 images in 0s: 2 bundles, 1 image failed\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProgress_BarsOnATerminal(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out, 1)
	p.bars = mpb.New(mpb.WithOutput(&out), mpb.WithAutoRefresh(), mpb.WithRefreshRate(10*time.Millisecond))
	shown := make(chan struct{})
	_, err := p.Fetch(t.Context(), fetching(func(ctx context.Context) {
		meter := fetch.MeterOf(ctx)
		meter.Requests.Store(1)
		meter.Received.Store(500)
		meter.Size.Store(1000)
		time.AfterFunc(300*time.Millisecond, func() { close(shown) })
		<-shown
	}), "example.com/a@sha256:"+strings.Repeat("5", 64))
	if err != nil {
		t.Fatal(err)
	}
	p.End()
	for _, want := range []string{"[=", "500 B of 1.0 KiB, 1 request example.com/a@sha256:555555555555\n", "[1/1] read example.com/a@sha256:" + strings.Repeat("5", 64) + ": 500 B of 1.0 KiB, 1 request\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %q", want, out.String())
		}
	}
}

type fetching func(context.Context)

func (f fetching) Fetch(ctx context.Context, _ string) ([]extractor.Bundle, error) {
	f(ctx)
	return nil, nil
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 KiB", 1536: "1.5 KiB", 421888: "412 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", 1 << 42: "4096 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
