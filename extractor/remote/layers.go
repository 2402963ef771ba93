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
	"github.com/capi-installer/capi-installer/extractor/flight"
)

// LayerStore keeps what was found in layers, by the layers' digests. What it
// loads must be what was saved: a store verifies that itself.
type LayerStore interface {
	// LoadLayer returns what is kept; found is false if it is nothing, or nothing sound.
	LoadLayer(ctx context.Context, layer digest.Digest) (data []byte, found bool)
	// SaveLayer keeps data. Trouble with that is the store's to tell of.
	SaveLayer(ctx context.Context, layer digest.Digest, data []byte)
}

// layers gets each layer once: not again while it is on its way, and not again
// after that as long as the store keeps it. The zero value keeps in memory.
type layers struct {
	flights flight.Group[v1.Hash, *projection]
	memory  memory
	once    sync.Once
	store   LayerStore
	large   chan struct{} // has one element for each large layer that is being read
	held    atomic.Int64  // bytes of bundles that are being read
}

// in returns the layers with the store that they are kept in; nil is memory. Only the first call counts.
func (l *layers) in(store LayerStore) *layers {
	l.once.Do(func() { l.store, l.large = store, make(chan struct{}, maxLarge) })
	return l
}

// A layer is large if reading it takes longer than asking for it. maxLarge is
// how many of them are read at once: more would only share the processors.
const isLarge, maxLarge = mib, 4

// wait waits for its turn to read a layer, and returns what ends it.
func (l *layers) wait(ctx context.Context, d v1.Descriptor) (done func(), err error) {
	if d.Size < isLarge {
		return func() {}, nil
	}
	select {
	case l.large <- struct{}{}:
		return func() { <-l.large }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// maxHeld is how many bytes of bundles are in memory while images are read. A whole release has less.
const maxHeld = extractor.MaxRelease

// errCrowded says that an image must wait until others are read.
var errCrowded = fmt.Errorf("the images that are read at once have more than %d bytes of manifests: they are read again later", maxHeld)

// hold counts bytes that come into memory, or leave it if n is negative.
func (l *layers) hold(n int64) error {
	if l.held.Add(n) > maxHeld && n > 0 {
		l.held.Add(-n)
		return errCrowded
	}
	return nil
}

// load returns what is kept of a layer; nil if it is nothing.
func (l *layers) load(ctx context.Context, layer v1.Hash, limits Limits) *projection {
	if p := l.memory.load(layer); p != nil {
		return p
	}
	if l.store == nil {
		return nil
	}
	data, found := l.store.LoadLayer(ctx, digest.Digest(layer.String()))
	if !found {
		return nil
	}
	p, err := decodeProjection(data, limits)
	if err != nil {
		if !errors.Is(err, errOtherVersion) {
			logr.FromContextOrDiscard(ctx).Error(err, "What is kept of a layer cannot be used; the layer is read anew.", "layer", layer.String())
		}
		return nil
	}
	l.memory.save(layer, p)
	return p
}

// save keeps a projection.
func (l *layers) save(ctx context.Context, layer v1.Hash, p *projection, limits Limits) {
	l.memory.save(layer, p)
	if l.store == nil {
		return
	}
	data, err := p.encode(limits)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "What was found in a layer could not be kept.", "layer", layer.String())
		return
	}
	l.store.SaveLayer(ctx, digest.Digest(layer.String()), data)
}

// known says whether a layer need not be read.
func (u *unpacking) known(ctx context.Context, layer v1.Hash) bool {
	return u.layers.load(ctx, layer, u.limits) != nil
}

// layer returns the projection of a layer. If enough is not nil, it may be of
// the beginning of the layer only, and then is not kept.
func (u *unpacking) layer(ctx context.Context, d v1.Descriptor, enough func(*projection) bool) (*projection, error) {
	for {
		if p := u.layers.load(ctx, d.Digest, u.limits); p != nil {
			return p, nil
		}
		if enough != nil {
			return u.read(ctx, d, enough)
		}
		p, first, err := u.layers.flights.Do(ctx, d.Digest, func(ctx context.Context) (*projection, error) {
			return u.read(ctx, d, nil)
		})
		if err == nil || first || ctx.Err() != nil {
			return p, err
		}
		// Another image's repository failed to give it. This one's may not.
	}
}

// read gets a layer from where the image comes from.
func (u *unpacking) read(ctx context.Context, d v1.Descriptor, enough func(*projection) bool) (p *projection, err error) {
	done, err := u.layers.wait(ctx, d)
	if err != nil {
		return nil, err
	}
	defer done()
	var ended error // why the body was not read to its end
	err = u.blob(ctx, "layer", d, func(body io.Reader) (err error) {
		j := newProjector(u.limits)
		j.hold = u.layers.hold
		defer func() { _ = j.hold(-j.kept) }()
		p, err = readLayer(ctx, d, body, j, enough)
		ended = nil
		if errors.Is(err, errEnough) || errors.Is(err, errCrowded) {
			ended, err = err, nil // the rest of the body does not matter
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case ended == nil:
		u.layers.save(ctx, d.Digest, p, u.limits)
	case errors.Is(ended, errCrowded):
		return nil, ended
	}
	return p, nil
}

// memory keeps the projections that were used last, as far as they are small.
type memory struct {
	mu     sync.Mutex
	kept   map[v1.Hash]*projection
	weight int64
}

// maxRemembered is how much all projections in memory may take, and maxEach how much one may: those with
// nothing of ours in them are far below, and base layers are such.
const maxRemembered, maxEach = 16 * mib, mib

func (m *memory) load(layer v1.Hash) *projection {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[layer]
}

func (m *memory) save(layer v1.Hash, p *projection) {
	weight := p.weight()
	m.mu.Lock()
	defer m.mu.Unlock()
	if weight > maxEach || m.kept[layer] != nil {
		return
	}
	if m.weight+weight > maxRemembered || m.kept == nil {
		m.kept, m.weight = map[v1.Hash]*projection{}, 0
	}
	m.kept[layer] = p
	m.weight += weight
}
