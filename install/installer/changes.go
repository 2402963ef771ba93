// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/object"
)

// changes number the events of the cache of installed objects, and keep the last number
// of each object. They answer which objects of a phase may have changed without a read
// of each. The zero value is ready to use.
//
// The cache holds a new state of an object before its event is counted. So all
// states whose events are counted are visible to a later read.
type changes struct {
	mutex sync.Mutex
	count uint64
	last  map[object.Identity]uint64
}

// observe counts an event.
func (c *changes) observe(o client.Object) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.last == nil {
		c.last = map[object.Identity]uint64{}
	}
	c.count++
	c.last[object.IdentityOf(o)] = c.count
}

// now returns the number of events so far.
func (c *changes) now() uint64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.count
}

// since reports whether an object may have changed after a number of events.
func (c *changes) since(count uint64, o client.Object) bool {
	if !isCached(o.GetNamespace()) {
		return true
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.last[object.IdentityOf(o)] > count
}

// Observe counts an event of the cache of installed objects. Each event must be
// passed before the reconcile that it causes.
func (e *Engine) Observe(o client.Object) { e.changes.observe(o) }
