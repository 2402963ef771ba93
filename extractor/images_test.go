// SPDX-License-Identifier: Apache-2.0

package extractor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("down")

// registry is a Fetcher that takes a second for an image. It has a bundle in
// "full", none in "empty", and is down for "down".
type registry struct{ fetches atomic.Int32 }

func (r *registry) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	r.fetches.Add(1)
	select {
	case <-ctx.Done():
		return nil, &extractor.Error{Image: reference, Err: context.Cause(ctx)}
	case <-time.After(time.Second):
	}
	switch reference {
	case "full":
		return []extractor.Bundle{{Origin: extractor.Origin{Image: reference}, Manifests: []byte("kind: Namespace\n")}}, nil
	case "empty":
		return nil, nil
	}
	return nil, &extractor.Error{Image: reference, Err: errDown}
}

func TestImages_ResultsInTheOrderOfTheImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		images := imagesjson.Images{
			{Name: "a", Reference: "full"}, {Name: "b", Reference: "down"}, {Name: "c", Reference: "empty"}, {Name: "d", Reference: "full", Overridden: true},
		}
		fetcher := &registry{}
		start := time.Now()
		got, err := extractor.Images{Images: images, Fetcher: fetcher}.Results(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		of := func(name string) []extractor.Bundle {
			return []extractor.Bundle{{Origin: extractor.Origin{Name: name, Image: "full"}, Manifests: []byte("kind: Namespace\n")}}
		}
		want := []extractor.Result{
			{Image: images[0], Bundles: of("a")}, {Image: images[1], Err: errDown}, {Image: images[2]}, {Image: images[3], Bundles: of("d")},
		}
		want[3].Bundles[0].Origin.Overridden = true
		if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if n := fetcher.fetches.Load(); n != 3 {
			t.Errorf("%d fetches for 3 references", n)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("three images took %s, not the time of one", took)
		}
	})
}

// endless is a Fetcher whose images are ever as large as one may be.
type endless struct{}

func (endless) Fetch(context.Context, string) ([]extractor.Bundle, error) {
	return []extractor.Bundle{{Manifests: make([]byte, extractor.MaxManifests)}}, nil
}

func TestImages_RejectsATooLargeRelease(t *testing.T) {
	images := imagesjson.Images{{Name: "a", Reference: "1"}, {Name: "b", Reference: "2"}, {Name: "c", Reference: "3"}}
	results, err := extractor.Images{Images: images, Fetcher: endless{}}.Results(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var kept, refused int
	for _, result := range results {
		if errors.Is(result.Err, extractor.ErrInvalid) {
			refused++
		}
		kept += len(result.Bundles)
	}
	if kept != 2 || refused != 1 {
		t.Errorf("%d kept and %d refused", kept, refused)
	}
}

func TestImages_NoImages(t *testing.T) {
	got, err := extractor.Images{}.Results(t.Context())
	if err != nil || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestImages_ContextErrorIsTheOnlyError(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errDown)
	images := imagesjson.Images{{Name: "a", Reference: "full"}}
	got, err := extractor.Images{Images: images, Fetcher: &registry{}}.Results(ctx)
	if !errors.Is(err, errDown) || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
