// SPDX-License-Identifier: Apache-2.0

// Package cache stores the bundles of images and the indexes of their layers, so that an
// image is read from a registry once: not again for a resync and, with a
// directory, not again after a restart. The bundles of an image are a function of its
// digest, so entries are never revalidated; the absence of bundles is
// cached as well.
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
	"github.com/capi-installer/capi-installer/internal/lru"
	"github.com/capi-installer/capi-installer/internal/singleflight"
)

// Cached is a Fetcher that calls Next once for each image. It is safe for concurrent use
// and must not be copied after first use.
//
// Errors are those of Next and are not cached. Errors of the store are logged (to
// the logger of the context) and cost memory or a fetch, never the result. A
// damaged entry is removed and fetched again.
type Cached struct {
	// Next fetches images that are not cached.
	Next extractor.Fetcher
	// Store stores the bundles. Without one, without a directory in it, or
	// when that cannot be written, they are kept in memory, up to 64 MiB.
	Store *Store

	flights singleflight.Group[string, []extractor.Bundle]
	memory  lru.Cache[digest.Digest, []extractor.Bundle]
}

// Fetch returns the bundles of an image, as Next returned them the first time.
// Concurrent callers with the same reference share one fetch, which ends early only if
// the contexts of all of them end.
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
	return withReference(reference, bundles), err
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
	if bundles, found := c.memory.Get(image); found {
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
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to cache the bundles of an image on disk; keeping them in memory until the next restart", "image", reference)
	}
	if !kept {
		c.memory.Add(image, bundles, weight(bundles), maxMemory)
	}
	return bundles, nil
}

// maxMemory is the size of the bundles that are kept in memory if there is no store, in bytes.
const maxMemory = 64 << 20

// weight is an estimate of the memory that the bundles of an image take, in bytes.
func weight(bundles []extractor.Bundle) int64 {
	total := int64(1 << 10)
	for _, b := range bundles {
		total += int64(len(b.Manifests)) + 1<<10
	}
	return total
}

// withReference returns the bundles with the origin of a reference.
func withReference(reference string, bundles []extractor.Bundle) []extractor.Bundle {
	bundles = slices.Clone(bundles)
	for i := range bundles {
		bundles[i].Origin = extractor.Origin{Image: reference}
	}
	return bundles
}
