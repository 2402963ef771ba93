// SPDX-License-Identifier: Apache-2.0

package extractor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/internal/parallel"
)

// Result is the result of reading one image.
type Result struct {
	Image imagesjson.Image
	// Bundles are the image's bundles. If both Bundles and Err are nil, the image has
	// no bundles.
	Bundles []Bundle
	// Err is the error of reading the bundles. It is, or joins, typed errors of the package
	// that read them. ErrInvalid distinguishes invalid bundles from retryable errors.
	Err error
}

// Images reads the bundles of all images of a release.
type Images struct {
	Images  imagesjson.Images
	Fetcher Fetcher
}

// MaxRelease is the maximum size of the manifests of all bundles of a release, in
// bytes.
const MaxRelease = 64 << 20

// Results fetches all images concurrently, without a limit other than the Fetcher's, and
// returns one result per image, in the order of the images. Images with the same reference
// are fetched once. The error of an image is in its result; Results fails only if ctx ends.
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
func (i Images) fetch(ctx context.Context) map[string]Result {
	references := i.references()
	var total atomic.Int64
	results := parallel.MapLimit(references, len(references), func(reference string) Result {
		bundles, err := i.Fetcher.Fetch(ctx, reference)
		if total.Add(weight(bundles)) > MaxRelease {
			bundles, err = nil, &Error{Image: reference, Err: &InvalidError{Err: errTooMuch}}
		}
		return Result{Bundles: bundles, Err: err}
	})
	fetched := map[string]Result{}
	for n, reference := range references {
		fetched[reference] = results[n]
	}
	return fetched
}

// references returns the unique references of the images in any order.
func (i Images) references() []string {
	unique := map[string]bool{}
	for _, image := range i.Images {
		unique[image.Reference] = true
	}
	return slices.Collect(maps.Keys(unique))
}

var errTooMuch = fmt.Errorf("with this image, the manifests of the release exceed %d bytes", MaxRelease)

// weight returns the size of the manifests of bundles, in bytes.
func weight(bundles []Bundle) (total int64) {
	for _, b := range bundles {
		total += int64(len(b.Manifests))
	}
	return total
}

// of returns the result with the key of an image. Fetchers do not know the key.
func (r Result) of(image imagesjson.Image) Result {
	bundles := slices.Clone(r.Bundles)
	for n := range bundles {
		bundles[n].Origin = Origin{Name: image.Name, Image: image.Reference, Overridden: image.Overridden}
	}
	return Result{Image: image, Bundles: bundles, Err: r.Err}
}
