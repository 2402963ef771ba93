// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/internal/object"
)

// Changes number the events of the cache of installed objects, and keep the last number
// of each object. They answer which objects of a phase may have changed without a read
// of each. It is safe for concurrent use.
//
// The cache holds a new state of an object before its event is counted. So all
// states whose events are counted are visible to a later read.
type Changes struct {
	// Namespaces are the namespaces of the cache. Objects in others have no events: they may always have changed.
	Namespaces Namespaces

	mutex sync.Mutex
	count uint64
	last  map[object.Identity]uint64
	// owners are the versions that control objects with events.
	owners sets.Set[string]
}

// Observe counts an event.
func (c *Changes) Observe(o object.Identity) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.last == nil {
		c.last = map[object.Identity]uint64{}
	}
	c.count++
	c.last[o] = c.count
}

// ObserveOwner keeps the version that controls an object with an event.
func (c *Changes) ObserveOwner(version string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.owners == nil {
		c.owners = sets.New[string]()
	}
	c.owners.Insert(version)
}

// TakeOwners returns the versions that controlled the objects with events since the last call.
func (c *Changes) TakeOwners() sets.Set[string] {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	taken := c.owners
	c.owners = nil
	return taken.Delete("")
}

// Count returns the number of events so far.
func (c *Changes) Count() uint64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.count
}

// Since reports whether an object may have changed after a number of events.
func (c *Changes) Since(count uint64, o object.Identity) bool {
	if !c.Namespaces.has(o.Namespace) {
		return true
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.last[o] > count
}
