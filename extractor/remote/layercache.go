// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/semaphore"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/overlay"
	"github.com/capi-installer/capi-installer/internal/lru"
	"github.com/capi-installer/capi-installer/internal/singleflight"
)

// layerCache reads each layer once: concurrent readers share one scan, and later readers use the index in memory. The zero value is
// empty.
type layerCache struct {
	scans    singleflight.Group[v1.Hash, *overlay.Index]
	memory   lru.Cache[v1.Hash, *overlay.Index]
	reserved atomic.Int64 // bytes of bundles that are being read
}

// A layer is large if reading it takes longer than requesting it. The process reads few large layers concurrently, because more would only
// compete for CPU.
const largeLayer = mib

var largeLayers = semaphore.NewWeighted(4)

// maxReserved limits the size of the bundles in memory while images are read. It is enough for a whole
// release.
const maxReserved = extractor.MaxRelease

// errMemory reports that an image exceeds the memory limit together with others
// that are being read.
var errMemory = fmt.Errorf("the images that are read at the same time have more than %d bytes of manifests; retrying later", maxReserved)

// reserve counts bytes of bundles in memory; a negative n releases them.
func (l *layerCache) reserve(n int64) error {
	if l.reserved.Add(n) > maxReserved && n > 0 {
		l.reserved.Add(-n)
		return errMemory
	}
	return nil
}

// reserve returns a function that reserves memory for one layer of the image. An image that exceeds
// maxReserved alone is invalid. An image that exceeds it together with others is retried later.
func (r *imageReader) reserve() func(int64) error {
	var layer int64
	return func(n int64) error {
		layer += n
		if err := overlay.CheckLimit("bytes of manifests of an image in memory", r.reserved+layer, maxReserved); n > 0 && err != nil {
			layer -= n
			return invalid(err)
		}
		err := r.cache.reserve(n)
		if err != nil {
			layer -= n
		}
		return err
	}
}

// maxMemory limits the size of all indexes in memory, and maxIndex the size of one, in bytes: indexes of shared base layers are much
// smaller than those with the files of bundles.
const maxMemory, maxIndex = 16 * mib, mib

// layerIndex returns the index of a layer, from the cache or from the image's repository.
func (r *imageReader) layerIndex(ctx context.Context, step string, d v1.Descriptor) (*overlay.Index, error) {
	for {
		if index, found := r.cache.memory.Get(d.Digest); found {
			return index, nil
		}
		index, first, err := r.cache.scans.Do(ctx, d.Digest, func(ctx context.Context) (*overlay.Index, error) {
			return r.scanLayer(ctx, step, d)
		})
		if err == nil || first || ctx.Err() != nil {
			return index, err
		}
		// The failure was in the repository of another image; the repository of this image may have the
		// layer.
	}
}

// scanLayer reads a layer from the image's repository and remembers its index.
func (r *imageReader) scanLayer(ctx context.Context, step string, d v1.Descriptor) (*overlay.Index, error) {
	if d.Size >= largeLayer {
		if err := largeLayers.Acquire(ctx, 1); err != nil {
			return nil, context.Cause(ctx)
		}
		defer largeLayers.Release(1)
	}
	scanner := overlay.Scanner{Limits: r.limits.Contents, Reserve: r.reserve()}
	var index *overlay.Index
	var noMemory bool
	scan := func(body io.Reader) (err error) {
		index, err = scanner.Scan(ctx, body, d.Size)
		if noMemory = errors.Is(err, errMemory); noMemory {
			return nil // the rest of the body is not needed
		}
		return err
	}
	err := r.readBlob(ctx, step, d, scan)
	if err == nil && !noMemory && index.Targets() != nil {
		scanner.Targets = index.Targets()
		err = r.readBlob(ctx, step, d, scan)
	}
	switch {
	case err != nil:
		return nil, err
	case noMemory:
		return nil, errMemory
	}
	if weight := index.Weight(); weight <= maxIndex {
		r.cache.memory.Add(d.Digest, index, weight, maxMemory)
	}
	return index, nil
}
