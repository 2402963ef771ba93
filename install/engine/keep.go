// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/fieldset"
	"github.com/capi-installer/capi-installer/internal/object"
)

// A reconcile compares only changed phases. Most events of a rollout concern one phase,
// and comparing all earlier phases at each event takes time that grows with the square
// of the number of phases.
//
// The result of a phase depends on its objects and on the live objects. So a complete
// phase without a write has the same result as before while both are the same: the
// objects of the phase, by the key of the revision, and each object in the cache, by its
// UID and its resource version. An object that was changed or deleted has another one, or
// none, and its phase is reconciled. Only objects with an event since the last comparison
// are read, and those that the cache does not hold.
//
// Nothing is known after a start: the first reconcile compares all phases.

// keeper keeps the phases of revisions that need no reconcile until one of their objects
// changes.
type keeper struct {
	// versions reads the identity and the resource version of installed objects from the
	// cache, without decoding them.
	versions client.Reader
	// changes are the events of the cache.
	changes *Changes
	// known are the kept phases by version.
	known map[string]keptPhases
}

// keptPhases are the phases of a revision that were complete without a write.
type keptPhases struct {
	// key identifies the objects of the revision.
	key    string
	phases map[string]keptPhase
}

// keptPhase is the result of a phase.
type keptPhase struct {
	Phase
	// asOf is the number of events before the last comparison.
	asOf uint64
}

// of returns the kept phases of a revision; phases of other objects are dropped.
func (k *keeper) of(rev Revision) map[string]keptPhase {
	if known := k.known[rev.Name]; rev.Key != "" && known.key == rev.Key {
		return known.phases
	}
	k.forget(rev.Name)
	return nil
}

// keep keeps the results of the phases that need no reconcile until an object changes.
// asOf is the number of events before their reconcile.
func (k *keeper) keep(rev Revision, found []Phase, asOf uint64) {
	if rev.Key == "" {
		return
	}
	phases := k.of(rev)
	if phases == nil {
		phases = map[string]keptPhase{}
	}
	for _, phase := range found {
		delete(phases, phase.Name)
		if phase.settled() {
			phases[phase.Name] = keptPhase{phase, asOf}
		}
	}
	if k.known == nil {
		k.known = map[string]keptPhases{}
	}
	k.known[rev.Name] = keptPhases{rev.Key, phases}
}

// settled reports whether a phase is complete and nothing was written, nor is left to write. A value that an admission plugin replaces
// is written again from time to time.
func (p Phase) settled() bool {
	return p.Complete && !slices.ContainsFunc(p.Objects, func(o Object) bool {
		return o.Action != Idle && o.Action != Progressed || o.Adoptable || o.Replaced != nil
	})
}

// unchanged returns the last result of a phase if no object has changed since.
func (k *keeper) unchanged(ctx context.Context, rev Revision, name string) (Phase, bool) {
	phases := k.of(rev)
	kept, found := phases[name]
	if !found {
		return Phase{}, false
	}
	now := k.changes.Count()
	for _, o := range kept.Objects {
		if k.changes.Since(kept.asOf, o.Identity) && !k.isCurrent(ctx, o) {
			return Phase{}, false
		}
	}
	phases[name] = keptPhase{kept.Phase, now}
	return kept.Phase, true
}

// isCurrent reports whether the cache holds an object with this resource version.
func (k *keeper) isCurrent(ctx context.Context, o Object) bool {
	actual := o.Object() // shares its fields with the cache
	err := k.versions.Get(ctx, client.ObjectKeyFromObject(actual), actual, client.UnsafeDisableDeepCopy)
	return err == nil && actual.GetUID() == o.UID && actual.GetResourceVersion() == o.Version
}

// forget drops the kept phases of a version.
func (k *keeper) forget(version string) { delete(k.known, version) }

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

// reads are the objects that were read while a phase was applied. They show which writes had no effect: the original boxcutter writes at each
// reconcile values that the API server stores in another form. And they show which objects a tool has restored from a backup.
type reads struct {
	known sync.Map // of read by object.Identity
	// take takes over the fields of an object that an older version has applied.
	take func(ctx context.Context, live *unstructured.Unstructured) error
}

// read is an object before its write.
type read struct{ version, restoredBy string }

// readsKey is the key of the reads in the context of a phase.
type readsKey struct{}

// in returns a context whose reads are recorded.
func (r *reads) in(ctx context.Context) context.Context { return context.WithValue(ctx, readsKey{}, r) }

// recordingReader records the reads of a phase.
type recordingReader struct{ client.Reader }

// Get reads an object.
func (r recordingReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, options...)
	seen, recorded := ctx.Value(readsKey{}).(*reads)
	if err != nil || !recorded {
		return err
	}
	if live, is := o.(*unstructured.Unstructured); is && seen.take != nil {
		if err := seen.take(ctx, live); err != nil {
			return fmt.Errorf("taking over the fields of %s that the version removes: %w", object.Describe(o), err)
		}
	}
	seen.known.Store(object.IdentityOf(o), read{o.GetResourceVersion(), restoredBy(o)})
	return nil
}

// restoredBy returns the field manager that has restored an object from a backup; empty for other objects. A restored object names a version as
// its owner, although the installer owns none of its fields.
func restoredBy(o client.Object) string {
	if o.GetAnnotations()[v1alpha1.OwnersAnnotation] == "" || fieldset.Owned(o) {
		return ""
	}
	for _, entry := range o.GetManagedFields() {
		if entry.Subresource == "" {
			return entry.Manager
		}
	}
	return "unknown"
}

// compared makes writes idle that have not changed their object, and marks the writes of restored objects.
func (r *reads) compared(phases []Phase) []Phase {
	for _, phase := range phases {
		for i, o := range phase.Objects {
			found, _ := r.known.Load(o.Identity)
			before, known := found.(read)
			switch {
			case !known || !o.Written():
			case before.version == o.Version:
				phase.Objects[i].Action, phase.Objects[i].Change = Idle, ""
			default:
				phase.Objects[i].RestoredBy = before.restoredBy
			}
		}
	}
	return phases
}
