// SPDX-License-Identifier: Apache-2.0

// Package cache keeps the bundles of images, so that an image is read from a
// registry once: not again for a resync, and with a directory not again after a
// restart. What an image holds is a function of its digest, so nothing is ever
// revalidated, and that an image holds no bundle is kept as well.
package cache

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

// DefaultKeep is how long an entry is kept that nobody asks for.
const DefaultKeep = 30 * 24 * time.Hour

// Cached is a Fetcher that asks Next for each image once. It is for use by
// several goroutines; several processes may share Dir. It must not be copied
// once it is used.
//
// Errors are those of Next and are not kept. Trouble with Dir is logged (to the
// logger of the context) and costs a fetch, never the result. An entry that is
// damaged is dropped and fetched anew.
type Cached struct {
	// Next is asked for what is not there yet.
	Next extractor.Fetcher
	// Dir is the directory of the entries, made if it is missing. Whoever can
	// write to it decides what is installed. Empty keeps the entries in memory.
	Dir string
	// Keep is how long an entry is kept that nobody asks for; 0 means DefaultKeep.
	Keep time.Duration

	calls  calls
	once   sync.Once
	stored store
}

// store keeps bundles by image digest, without their origin.
type store interface {
	// load returns what is kept; found is false if it is nothing, or nothing sound.
	load(log logr.Logger, image digest.Digest) (bundles []extractor.Bundle, found bool)
	save(image digest.Digest, bundles []extractor.Bundle) error
}

// Fetch returns the bundles of an image, as Next gave them the first time.
// Callers that ask for one reference at the same time share one fetch; it goes
// on until the last of them gives up.
func (c *Cached) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	ref, err := name.NewDigest(reference)
	if err != nil {
		return nil, &extractor.Error{Image: reference, Err: err}
	}
	image := digest.Digest(ref.DigestStr())
	if err := image.Validate(); err != nil {
		return nil, &extractor.Error{Image: reference, Err: err}
	}
	c.once.Do(c.open)
	bundles, err := c.calls.do(ctx, reference, func(ctx context.Context) ([]extractor.Bundle, error) {
		return c.loadOrFetch(ctx, reference, image)
	})
	return from(reference, bundles), err
}

func (c *Cached) open() {
	keep := c.Keep
	if keep == 0 {
		keep = DefaultKeep
	}
	if c.Dir == "" {
		c.stored = &memory{keep: keep}
		return
	}
	c.stored = &disk{dir: c.Dir, keep: keep}
}

func (c *Cached) loadOrFetch(ctx context.Context, reference string, image digest.Digest) ([]extractor.Bundle, error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("image", reference)
	if bundles, found := c.stored.load(log, image); found {
		return bundles, nil
	}
	bundles, err := c.Next.Fetch(ctx, reference)
	if err != nil {
		return nil, err
	}
	if err := c.stored.save(image, bundles); err != nil {
		log.Error(err, "The bundles of an image could not be kept; they will be fetched again.")
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

// memory keeps entries until the process ends.
type memory struct {
	keep    time.Duration
	mu      sync.Mutex
	entries map[digest.Digest]*remembered
}

type remembered struct {
	bundles []extractor.Bundle
	used    time.Time
}

func (m *memory) load(_ logr.Logger, image digest.Digest) ([]extractor.Bundle, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entry := m.entries[image]
	if entry == nil {
		return nil, false
	}
	entry.used = time.Now()
	return entry.bundles, true
}

func (m *memory) save(image digest.Digest, bundles []extractor.Bundle) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for other, entry := range m.entries {
		if now.Sub(entry.used) > m.keep {
			delete(m.entries, other)
		}
	}
	if m.entries == nil {
		m.entries = map[digest.Digest]*remembered{}
	}
	m.entries[image] = &remembered{bundles, now}
	return nil
}
