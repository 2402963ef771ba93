// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Another actor that restores its own value of a field after each revert would cause a write, an event and a status
// update each time, without end. So the installer pauses between the reverts of one object, longer after each. Meanwhile it only
// compares the object, and the condition names the fields and the field managers.

// contests are the objects of a version that were reverted lately. Another version writes them without a pause.
type contests map[object.Identity]contest

// contest is an object that another actor keeps changing.
type contest struct {
	// reverts are those in a row, each within the memory of the previous one.
	reverts int
	// last is the time of the last revert.
	last time.Time
	// change describes the object, the fields, the field managers, and the annotations that address other controllers.
	change string
	// instructions are the annotations of the object that address other controllers.
	instructions []string
}

// released reports whether an annotation is gone that made another controller write the object: an administrator has ended the contest.
func (c contest) released(o engine.Object) bool {
	return slices.ContainsFunc(c.instructions, func(name string) bool { return !slices.Contains(o.Instructions, name) })
}

// pause returns the time until the next revert. Three reverts in a row are immediate.
func (c contest) pause() time.Duration {
	switch {
	case c.reverts < 3:
		return 0
	case c.reverts == 3:
		return 2 * time.Minute
	default:
		return 10 * time.Minute
	}
}

// memory is how long after the last revert another one still counts as the next in a row.
func (c contest) memory() time.Duration { return c.pause() + time.Minute }

// paused reports whether the installer must not revert an object at a time.
func (c contests) paused(o object.Identity, now time.Time) bool {
	return now.Before(c[o].last.Add(c[o].pause()))
}

// contested reports whether the reverts of an object are paused: the condition names the object.
func (c contests) contested(o object.Identity) bool { return c[o].pause() > 0 }

// reverts reports whether an action reverts a change of another actor. Only the current version was complete before; others also
// create and update objects, but need not take a field back.
func (s scope) reverts(action engine.Action) bool {
	if s == maintenance {
		return externalChange(action) != ""
	}
	return action == engine.Recovered
}

// after returns the contests after a reconcile: it counts the reverts, and forgets objects that were not changed again.
func (c contests) after(result engine.Result, of scope, now time.Time) contests {
	out := contests{}
	maps.Copy(out, c)
	for o := range result.Objects() {
		if !of.reverts(o.Action) {
			continue
		}
		known, found := out[o.Identity]
		if o.Paused && !found {
			continue
		}
		if o.Paused && known.released(o) {
			out[o.Identity] = contest{last: now}
			continue
		}
		if now.After(known.last.Add(known.memory())) {
			known = contest{}
		}
		if known.change, known.instructions = changeOf(o), o.Instructions; !o.Paused {
			known.reverts, known.last = known.reverts+1, now
		}
		out[o.Identity] = known
	}
	maps.DeleteFunc(out, func(_ object.Identity, known contest) bool { return now.After(known.last.Add(known.memory())) })
	return out
}

// changeOf describes an object that another actor has changed, with the annotations that can make it do so.
func changeOf(o engine.Object) string {
	change := cmp.Or(o.Change, externalChange(o.Action))
	if len(o.Instructions) > 0 {
		change += ", annotated " + text.First(3, o.Instructions)
	}
	return o.String() + " (" + change + ")"
}

// contend counts the reverts of an attempt, and returns the contests of its version.
func (r *Applier) contend(s state, a attempt, now time.Time) contests {
	maps.DeleteFunc(r.contests, func(version string, _ contests) bool { return s.Cluster.Status.Version(version) == nil })
	if r.contests == nil {
		r.contests = map[string]contests{}
	}
	r.contests[a.plan.name] = r.contests[a.plan.name].after(a.result, a.scope, now)
	return r.contests[a.plan.name]
}

// message describes the objects whose reverts are paused, and next is the time until the first pause or memory ends, or until a released
// object is reverted; empty and 0 without such objects.
func (c contests) message(now time.Time) (message string, next time.Duration) {
	var changes []string
	for _, known := range c {
		if known.reverts == 0 { // released: the next reconcile reverts it
			next = time.Second
		}
		if known.pause() == 0 {
			continue
		}
		changes = append(changes, known.change)
		for _, end := range []time.Duration{known.pause(), known.memory()} {
			if left := known.last.Add(end).Sub(now) + time.Second; left > 0 && (next == 0 || left < next) {
				next = left
			}
		}
	}
	if changes == nil {
		return "", next
	}
	slices.Sort(changes)
	return "another actor keeps changing what the installer has reverted: " + text.First(10, changes), next
}
