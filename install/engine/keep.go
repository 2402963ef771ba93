// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
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

// settle drops the kept phases of all versions except one.
func (k *keeper) settle(version string) {
	maps.DeleteFunc(k.known, func(name string, _ keptPhases) bool { return name != version })
}
