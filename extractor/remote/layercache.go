// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/overlay"
	"github.com/capi-installer/capi-installer/internal/lru"
	"github.com/capi-installer/capi-installer/internal/singleflight"
)

// LayerStore stores the indexes of layers by digest. The store must verify that
// it returns the data that was saved.
type LayerStore interface {
	// LoadLayer returns the stored data; found is false if there is none or it is corrupt.
	LoadLayer(ctx context.Context, layer digest.Digest) (data []byte, found bool)
	// SaveLayer stores data. The store logs errors.
	SaveLayer(ctx context.Context, layer digest.Digest, data []byte)
}

// layerCache reads each layer once: concurrent readers share one scan, and later
// readers use the stored index. The zero value caches indexes only in memory.
type layerCache struct {
	scans    singleflight.Group[v1.Hash, *overlay.Index]
	memory   lru.Cache[v1.Hash, *overlay.Index]
	once     sync.Once
	store    LayerStore
	large    chan struct{} // has one element for each large layer that is being read
	reserved atomic.Int64  // bytes of bundles that are being read
}

// withStore sets the store of the cache; nil means memory only. Only the first call has an
// effect.
func (l *layerCache) withStore(store LayerStore) *layerCache {
	l.once.Do(func() { l.store, l.large = store, make(chan struct{}, maxLargeLayers) })
	return l
}

// A layer is large if reading it takes longer than requesting it. At most maxLargeLayers are read
// concurrently, because more would only compete for CPU.
const largeLayer, maxLargeLayers = mib, 4

// acquire waits until another large layer may be read. The caller must call
// release.
func (l *layerCache) acquire(ctx context.Context, d v1.Descriptor) (release func(), err error) {
	if d.Size < largeLayer {
		return func() {}, nil
	}
	select {
	case l.large <- struct{}{}:
		return func() { <-l.large }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

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

// load returns the cached index of a layer; nil if there is none.
func (l *layerCache) load(ctx context.Context, layer v1.Hash, limits overlay.Limits) *overlay.Index {
	if index, found := l.memory.Get(layer); found {
		return index
	}
	if l.store == nil {
		return nil
	}
	data, found := l.store.LoadLayer(ctx, digest.Digest(layer.String()))
	if !found {
		return nil
	}
	index, err := overlay.Decode(data, limits)
	if err != nil {
		if !errors.Is(err, overlay.ErrVersion) {
			logr.FromContextOrDiscard(ctx).Error(err, "Failed to decode the cached index of a layer; reading the layer again", "layer", layer.String())
		}
		return nil
	}
	l.remember(layer, index)
	return index
}

// maxMemory limits the size of all indexes in memory, and maxIndex the size of one, in bytes. With a store, maxStored
// limits the size of one: indexes of shared base layers are much smaller. Larger ones contain the files of bundles (7
// MiB for sixteen real providers), and are read again only with their image.
const maxMemory, maxIndex, maxStored = 16 * mib, mib, 32 << 10

func (l *layerCache) remember(layer v1.Hash, index *overlay.Index) {
	most := maxIndex
	if l.store != nil {
		most = maxStored
	}
	if weight := index.Weight(); weight <= most {
		l.memory.Add(layer, index, weight, maxMemory)
	}
}

// save caches an index.
func (l *layerCache) save(ctx context.Context, layer v1.Hash, index *overlay.Index, limits overlay.Limits) {
	l.remember(layer, index)
	if l.store == nil {
		return
	}
	data, err := index.Encode(limits)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to encode the index of a layer", "layer", layer.String())
		return
	}
	l.store.SaveLayer(ctx, digest.Digest(layer.String()), data)
}

// layerIndex returns the index of a layer, from the cache or from the image's repository.
func (r *imageReader) layerIndex(ctx context.Context, step string, d v1.Descriptor) (*overlay.Index, error) {
	for {
		if index := r.cache.load(ctx, d.Digest, r.limits.Contents); index != nil {
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

// scanLayer reads a layer from the image's repository and caches its index.
func (r *imageReader) scanLayer(ctx context.Context, step string, d v1.Descriptor) (*overlay.Index, error) {
	release, err := r.cache.acquire(ctx, d)
	if err != nil {
		return nil, err
	}
	defer release()
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
	err = r.readBlob(ctx, step, d, scan)
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
	r.cache.save(ctx, d.Digest, index, r.limits.Contents)
	return index, nil
}
