// SPDX-License-Identifier: Apache-2.0

// Package cache stores the bundles of images, so that a resync,
// and with a directory also a restart, does not read an image from the registry again. The digest
// of an image determines its bundles, so entries never expire. The absence of bundles is cached
// too.
//
//	store := &cache.Store{Dir: "/var/cache/capi-installer"}
//	fetcher := &cache.Cached{Store: store, Next: remote.Limit(&remote.Registry{}, 4)}
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
// Errors of Next are returned and not cached. Errors of the store are logged to the
// logger of the context; they may cause another fetch or use memory, but never fail
// Fetch. A corrupt entry is removed and fetched again.
type Cached struct {
	// Next fetches images that are not cached.
	Next extractor.Fetcher
	// Store stores the bundles. If it is nil, has no directory, or fails to
	// write, bundles are cached in memory, up to 64 MiB.
	Store *Store

	flights singleflight.Group[string, []extractor.Bundle]
	memory  lru.Cache[digest.Digest, []extractor.Bundle]
}

// Fetch returns the bundles of an image, from the cache or from Next. Concurrent
// callers with the same reference share one fetch. It is canceled only when the
// contexts of all callers have ended.
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

// digestIn returns the digest of a reference.
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

// maxMemory limits the size of the bundles that are cached in memory, in bytes.
const maxMemory = 64 << 20

// weight estimates the memory of the bundles of an image, in bytes.
func weight(bundles []extractor.Bundle) int64 {
	total := int64(1 << 10)
	for _, b := range bundles {
		total += int64(len(b.Manifests)) + 1<<10
	}
	return total
}

// withReference returns the bundles with the reference as their origin.
func withReference(reference string, bundles []extractor.Bundle) []extractor.Bundle {
	bundles = slices.Clone(bundles)
	for i := range bundles {
		bundles[i].Origin = extractor.Origin{Image: reference}
	}
	return bundles
}
