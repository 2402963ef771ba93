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
	// Bundles are the image's bundles; none, without Err, if it is known to hold none.
	Bundles []Bundle
	// Err is the failure to read the bundles. It is, or joins, typed errors of the
	// package that read them; ErrInvalid distinguishes invalid bundles from a failed transport.
	Err error
}

// Images reads the bundles of all images of a release.
type Images struct {
	Images  imagesjson.Images
	Fetcher Fetcher
}

// MaxRelease is the largest size in bytes of the manifests of all bundles of a release.
const MaxRelease = 64 << 20

// Results fetches all images concurrently (a Fetcher limits itself) and returns one
// result for each, in the order of the images. Images with the same reference are
// fetched once. The error of an image is in its result; the error of Results is that of ctx.
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

// references returns the references of the images, each once, in any order.
func (i Images) references() []string {
	unique := map[string]bool{}
	for _, image := range i.Images {
		unique[image.Reference] = true
	}
	return slices.Collect(maps.Keys(unique))
}

var errTooMuch = fmt.Errorf("with this image, the release has more than %d bytes of manifests", MaxRelease)

// weight is the size of the manifests of bundles, in bytes.
func weight(bundles []Bundle) (total int64) {
	for _, b := range bundles {
		total += int64(len(b.Manifests))
	}
	return total
}

// of returns the result for image: fetchers know references, not names.
func (r Result) of(image imagesjson.Image) Result {
	bundles := slices.Clone(r.Bundles)
	for n := range bundles {
		bundles[n].Origin = Origin{Name: image.Name, Image: image.Reference, Overridden: image.Overridden}
	}
	return Result{Image: image, Bundles: bundles, Err: r.Err}
}
