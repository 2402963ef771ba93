// SPDX-License-Identifier: Apache-2.0

// Package lru is an in-memory LRU cache with a limit on the total weight of its values, such as
// their size in bytes. It adds weights and locking to github.com/hashicorp/golang-lru/v2/simplelru.
// That package limits only the number of entries.
package lru

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache is safe for concurrent use. The zero value is empty and ready to use; it must not be copied after first use.
type Cache[K comparable, V any] struct {
	mu      sync.Mutex
	entries *simplelru.LRU[K, entry[V]]
	total   int64
}

type entry[V any] struct {
	value  V
	weight int64
}

// Get returns the value of a key and marks it as recently used.
func (c *Cache[K, V]) Get(key K) (value V, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		return value, false
	}
	e, found := c.entries.Get(key)
	return e.value, found
}

// Add sets the value of a key and evicts the least recently used values until the total weight is
// at most maxWeight. A value with more weight than maxWeight is not cached.
func (c *Cache[K, V]) Add(key K, value V, weight, maxWeight int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries, _ = simplelru.NewLRU[K, entry[V]](math.MaxInt, c.evicted) // an error only for a size below 1
	}
	c.entries.Remove(key)
	if weight > maxWeight {
		return
	}
	for c.total+weight > maxWeight {
		c.entries.RemoveOldest()
	}
	c.entries.Add(key, entry[V]{value, weight})
	c.total += weight
}

func (c *Cache[K, V]) evicted(_ K, e entry[V]) { c.total -= e.weight }
