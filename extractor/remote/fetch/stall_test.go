// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/test/registry"
)

// stalls are the kinds of stalls of a source: it accepts connections, and then sends no more data.
var stalls = map[string]registry.Fault{
	"before the response":    {Delay: time.Minute},
	"in a manifest":          {Path: "/manifests/", Pause: time.Minute, Chunk: 10},
	"in a layer":             {Path: "/blobs/", Pause: time.Minute, Chunk: 10},
	"in a layer after 64KiB": {Path: "/blobs/", Pause: time.Minute, Chunk: 100 << 10},
}

// scale divides the default times in the tests of stalls.
const scale = 100

// short sets the default times divided by scale.
func (s *stage) short() {
	p := Pace{}.orDefaults()
	s.puller.Pace = Pace{Silence: p.Silence / scale, Detour: p.Detour / scale, Patience: p.Patience / scale, Rate: p.Rate * scale}
	s.puller.Retry = Retry{Backoff: 5 * time.Millisecond, MaxBackoff: time.Second}
}

func TestClient_WorksWithAStalledMirror(t *testing.T) {
	for name, stall := range stalls {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, registry.Options{})
			s.short()
			s.mirrors[0].Fail(stall)
			start := time.Now()
			must(t, s.pull())
			if took := time.Since(start) * scale; took > 60*time.Second+longTest {
				t.Errorf("took %s, want at most 60 s", took)
			}
		})
	}
}

// A source that sends some bytes and then stalls, again and again, does not hold up a working one.
func TestClient_LeavesASourceThatStallsRepeatedly(t *testing.T) {
	s := newStage(t, 1, registry.Options{})
	s.short()
	s.puller.Pace.Silence *= 5 // on a busy machine, the registry misses shorter ones, too
	s.mirrors[0].Fail(stalls["in a layer after 64KiB"])
	must(t, s.pull())
	layers := registry.Key{Method: "GET", Kind: "blobs"}
	if mirror, own := s.mirrors[0].Requests()[layers], s.own.Requests()[layers]; mirror != 1 || own != 1 {
		t.Errorf("%d requests to the mirror and %d to the registry, want 1 and 1", mirror, own)
	}
}

// longTest allows for a busy machine: the test measures a hundredth of the real time.
const longTest = 100 * time.Second

func TestClient_FailsIfAllSourcesStall(t *testing.T) {
	for name, stall := range stalls {
		if name == "in a layer after 64KiB" {
			continue // it is resumed until it is complete
		}
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 2, registry.Options{})
			s.short()
			for _, r := range append(s.mirrors, s.own) {
				r.Fail(stall)
			}
			start := time.Now()
			err := s.pull()
			if took := time.Since(start) * scale; took > 90*time.Second+longTest {
				t.Errorf("took %s, want at most 90 s", took)
			}
			if err == nil || strings.Count(err.Error(), "timed out") < 3 {
				t.Errorf("got %v, want three timeouts", err)
			}
		})
	}
}

func TestClient_AsksAStalledMirrorLastFromThenOn(t *testing.T) {
	for name, fault := range map[string]registry.Fault{
		"stalled": {Path: "/blobs/", Pause: time.Minute, Chunk: 10}, "truncated": {Path: "/blobs/", CutAfter: 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, registry.Options{})
			s.short()
			s.mirrors[0].Fail(fault)
			must(t, s.pull())
			s.mirrors[0].Reset()
			for range 3 {
				must(t, s.pull())
			}
			if paths := s.mirrors[0].Paths(); len(paths) > 0 {
				t.Errorf("requests to the mirror: %v", paths)
			}
		})
	}
}

// Requests that wait for the stalled request do not wait for their own timeouts, one after another.
func TestClient_ManyImagesAndAStalledMirror(t *testing.T) {
	s := newStage(t, 1, registry.Options{})
	s.short()
	s.mirrors[0].Fail(registry.Fault{Delay: time.Minute})
	start := time.Now()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			image, err := s.puller.Open(t.Context(), s.reference)
			if err == nil {
				_, err = image.Manifest(t.Context(), "manifest", v1.Descriptor{Digest: image.Digest(), Size: -1}, 4<<20)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if took := time.Since(start); took > 3*s.puller.Pace.Silence+time.Second {
		t.Errorf("took %s for 20 images", took)
	}
}

// A transmission error is as likely as a wrong copy.
func TestClient_FetchesOtherBytesOnceMore(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	flipped := append([]byte{}, s.content...)
	flipped[1000] ^= 1
	s.own.Fail(registry.Fault{Path: "/blobs/", Body: flipped, Times: 1})
	must(t, s.pull())
	if n := s.own.Requests()[registry.Key{Method: "GET", Kind: "blobs"}]; n != 2 {
		t.Errorf("%d requests for the layer, want 2", n)
	}
	s.own.Reset()
	s.own.Fail(registry.Fault{Path: "/blobs/", Body: flipped})
	if err := s.pull(); !errors.As(err, new(*DigestError)) {
		t.Errorf("got %v", err)
	}
	if n := s.own.Requests()[registry.Key{Method: "GET", Kind: "blobs"}]; n != 2 {
		t.Errorf("%d requests for the layer, want 2", n)
	}
}

func TestClient_RetriesATruncatedToken(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	answers := []string{`{"token": "abc`, `{"token": "abc"}`}
	tokens := registry.New(t, registry.Options{Address: "127.0.0.1:0"})
	tokens.Fail(registry.Fault{Serve: func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_, _ = io.WriteString(w, answers[0])
		answers = answers[min(1, len(answers)-1):]
	}})
	s.own.Fail(registry.Fault{Serve: authorize(`Bearer realm="http://`+tokens.Host()+`/token"`, func(req *http.Request) bool {
		return req.Header.Get("Authorization") == "Bearer abc"
	})})
	must(t, s.pull())
}

func TestStatusError_NamesPlainHTTP(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	s.own.Fail(registry.Fault{Path: "/manifests/", Status: 404})
	if err := s.pull(); err == nil || !strings.Contains(err.Error(), " http://"+s.own.Host()) {
		t.Errorf("got %v, want the URL with http", err)
	}
}

func TestTarget_EndsWithItsContext(t *testing.T) {
	s := newStage(t, 0, registry.Options{})
	s.own.Fail(registry.Fault{Path: "/manifests/", Pause: time.Minute, Chunk: 10})
	reference, err := name.NewDigest(s.reference)
	must(t, err)
	target, err := s.puller.Target(t.Context(), reference)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.own.Host()+"/v2/release/aws/manifests/"+reference.DigestStr(), nil)
	must(t, err)
	resp, err := target.RoundTrip(req)
	must(t, err)
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
