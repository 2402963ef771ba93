// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
)

// maxMemory is how many bytes of manifests are kept in memory.
const maxMemory = 64 << 20

// memory keeps images until the process ends, those that were used last. The zero value is empty.
type memory struct {
	mu    sync.Mutex
	used  []digest.Digest // the one used last is at the end
	kept  map[digest.Digest][]extractor.Bundle
	bytes int
}

func (m *memory) load(image digest.Digest) ([]extractor.Bundle, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	bundles, found := m.kept[image]
	if found {
		m.used = append(slices.DeleteFunc(m.used, func(d digest.Digest) bool { return d == image }), image)
	}
	return bundles, found
}

func (m *memory) save(image digest.Digest, bundles []extractor.Bundle) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, found := m.kept[image]; found || weight(bundles) > maxMemory {
		return
	}
	for m.bytes+weight(bundles) > maxMemory {
		m.bytes -= weight(m.kept[m.used[0]])
		delete(m.kept, m.used[0])
		m.used = m.used[1:]
	}
	if m.kept == nil {
		m.kept = map[digest.Digest][]extractor.Bundle{}
	}
	m.kept[image] = bundles
	m.used = append(m.used, image)
	m.bytes += weight(bundles)
}

// weight is about how many bytes an image takes.
func weight(bundles []extractor.Bundle) int {
	total := 1 << 10
	for _, b := range bundles {
		total += len(b.Manifests) + 1<<10
	}
	return total
}
