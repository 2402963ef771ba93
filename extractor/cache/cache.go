// SPDX-License-Identifier: Apache-2.0

// Package cache keeps what was found in images and in their layers, so that an
// image is read from a registry once: not again for a resync, and with a
// directory not again after a restart. What an image holds is a function of its
// digest, so nothing is ever revalidated, and that an image holds no bundle is
// kept as well.
//
//	store := &cache.Store{Dir: "/var/cache/capi-installer"}
//	fetcher := &cache.Cached{Store: store, Next: remote.Limit(&remote.Registry{Layers: store}, 4)}
package cache

import (
	"context"
	"slices"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/flight"
)

// Cached is a Fetcher that asks Next for each image once. It is for use by
// several goroutines. It must not be copied once it is used.
//
// Errors are those of Next and are not kept. Trouble with the store is logged (to
// the logger of the context) and costs memory or a fetch, never the result. An
// entry that is damaged is dropped and fetched anew.
type Cached struct {
	// Next is asked for what is not there yet.
	Next extractor.Fetcher
	// Store is where images are kept. Without one, without a directory in it, or
	// when that cannot be written, they are kept in memory, as far as 64 MiB go.
	Store *Store

	flights flight.Group[string, []extractor.Bundle]
	memory  memory
}

// Fetch returns the bundles of an image, as Next gave them the first time.
// Callers that ask for one reference at the same time share one fetch; it goes
// on until the last of them gives up.
func (c *Cached) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	image, err := digestIn(reference)
	if err != nil {
		return nil, &extractor.Error{Image: reference, Err: err}
	}
	bundles, _, err := c.flights.Do(ctx, reference, func(ctx context.Context) ([]extractor.Bundle, error) {
		return c.loadOrFetch(ctx, reference, image)
	})
	if err != nil && ctx.Err() != nil {
		return nil, &extractor.Error{Image: reference, Err: context.Cause(ctx)}
	}
	return from(reference, bundles), err
}

// digestIn returns the digest of a reference that has one.
func digestIn(reference string) (digest.Digest, error) {
	ref, err := name.NewDigest(reference)
	if err != nil {
		return "", err
	}
	image := digest.Digest(ref.DigestStr())
	return image, image.Validate()
}

func (c *Cached) loadOrFetch(ctx context.Context, reference string, image digest.Digest) ([]extractor.Bundle, error) {
	if bundles, found := c.memory.load(image); found {
		return bundles, nil
	}
	if bundles, found := c.Store.loadImage(ctx, image); found {
		return bundles, nil
	}
	bundles, err := c.Next.Fetch(ctx, reference)
	if err != nil {
		return nil, err
	}
	kept, err := c.Store.saveImage(image, bundles)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The bundles of an image could not be kept on disk; they are kept in memory, and fetched again after a restart.", "image", reference)
	}
	if !kept {
		c.memory.save(image, bundles)
	}
	return bundles, nil
}

// from returns the bundles as those of a reference.
func from(reference string, bundles []extractor.Bundle) []extractor.Bundle {
	bundles = slices.Clone(bundles)
	for i := range bundles {
		bundles[i].Origin = extractor.Origin{Image: reference}
	}
	return bundles
}
