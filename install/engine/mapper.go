// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// knownMappings is a mapper that keeps each mapping it has found. A cache asks for one at each read. controller-runtime's
// mapper drops none either, but searches all groups of the cluster each time.
type knownMappings struct {
	meta.RESTMapper
	known sync.Map // of *meta.RESTMapping by schema.GroupVersionKind
}

// RESTMapping returns the mapping of a kind.
func (m *knownMappings) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 {
		return m.RESTMapper.RESTMapping(kind, versions...)
	}
	key := kind.WithVersion(versions[0])
	if mapping, found := m.known.Load(key); found {
		return mapping.(*meta.RESTMapping), nil
	}
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		m.known.Store(key, mapping)
	}
	return mapping, err
}
