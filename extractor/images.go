// SPDX-License-Identifier: Apache-2.0

package extractor

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/capi-installer/capi-installer/imagesjson"
)

// Result is what one image holds.
type Result struct {
	Image imagesjson.Image
	// Bundles are the image's bundles; none, with no Err, if it is proven that it holds none.
	Bundles []Bundle
	// Err is why the bundles are not known. It is, or joins, typed errors of the
	// package that read them; ErrInvalid tells wrong bundles from a failed transport.
	Err error
}

// Images gets the bundles of all images of a release.
type Images struct {
	Images  imagesjson.Images
	Fetcher Fetcher
}

// MaxRelease is how many bytes the manifests of all bundles of a release may have.
const MaxRelease = 64 << 20

// Results fetches all images at once (a Fetcher limits itself) and returns one
// result for each, in the order of the images. Images with one reference are
// fetched once. What is wrong with an image is in its result; the error is only
// that ctx ended.
func (i Images) Results(ctx context.Context) ([]Result, error) {
	fetched := i.fetch(ctx)
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	results := make([]Result, len(i.Images))
	for n, image := range i.Images {
		results[n] = fetched[image.Reference].of(image)
	}
	return results, nil
}

// fetch returns the bundles of each reference.
func (i Images) fetch(ctx context.Context) map[string]*Result {
	fetched := map[string]*Result{}
	var group errgroup.Group
	var total atomic.Int64
	for _, image := range i.Images {
		if fetched[image.Reference] != nil {
			continue
		}
		result := &Result{}
		fetched[image.Reference] = result
		group.Go(func() error {
			result.Bundles, result.Err = i.Fetcher.Fetch(ctx, image.Reference)
			if total.Add(weight(result.Bundles)) > MaxRelease {
				result.Bundles, result.Err = nil, &Error{Image: image.Reference, Err: &InvalidError{Err: errTooMuch}}
			}
			return nil
		})
	}
	_ = group.Wait() // no function of the group returns an error
	return fetched
}

var errTooMuch = fmt.Errorf("with this image, the release has more than %d bytes of manifests", MaxRelease)

// weight is the size of the manifests of bundles.
func weight(bundles []Bundle) (total int64) {
	for _, b := range bundles {
		total += int64(len(b.Manifests))
	}
	return total
}

// of is the result as the one of image: fetchers know references, not names.
func (r Result) of(image imagesjson.Image) Result {
	bundles := slices.Clone(r.Bundles)
	for n := range bundles {
		bundles[n].Origin = Origin{Name: image.Name, Image: image.Reference, Overridden: image.Overridden}
	}
	return Result{Image: image, Bundles: bundles, Err: r.Err}
}
