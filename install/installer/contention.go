// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Another actor that restores its own value of a field after each revert would cause a write, an event and a status
// update each time, without end. So the installer pauses between the reverts of one object, longer after each. Meanwhile it only
// compares the object, and the condition names the fields and the field managers. An actor that acts every few minutes, as GitOps controllers
// do, causes few writes: its changes are reverted at once, and the condition names it too.

// contention is what earlier attempts have found out about contests.
type contention struct {
	contests map[string]contests // by version
	// ignored are the fields that the drift policy left to other actors at the last attempt.
	ignored []v1alpha1.IgnoredFields
}

// under returns the contention under a drift policy: a changed one ends the pauses.
func (c contention) under(ignored []v1alpha1.IgnoredFields) contention {
	if reflect.DeepEqual(c.ignored, ignored) {
		return c
	}
	return contention{ignored: ignored}
}

// of returns the contests of a version.
func (c contention) of(version string) contests { return c.contests[version] }

// after returns the contention after an attempt: it counts the reverts, and forgets versions without an entry in the status.
func (c contention) after(known v1alpha1.ClusterAPIStatus, a attempt, reissued []servingcert.Written, now time.Time) contention {
	out := map[string]contests{a.plan.name: c.of(a.plan.name).after(a.result, a.scope, now).reissued(reissued, now)}
	for version, of := range c.contests {
		if version != a.plan.name && known.Version(version) != nil {
			out[version] = of
		}
	}
	return contention{out, c.ignored}
}

// contests are the objects of a version that were reverted lately. Another version writes them without a pause.
type contests map[object.Identity]contest

// contest is an object that another actor keeps changing.
type contest struct {
	// reverts are those in a row, each within the memory of the previous one.
	reverts int
	// quick are the last ones in the row, each within a minute after the pause of the previous one.
	quick int
	// last is the time of the last revert.
	last time.Time
	// slowest is the longest time in the row until the actor had to be reverted again, without the pauses.
	slowest time.Duration
	// change describes the object, the fields, the field managers, and what addresses other controllers.
	change string
	// instructions of the object address other controllers.
	instructions []engine.Instruction
}

// contestedAfter is the number of reverts in a row after that the condition names the object.
const contestedAfter = 3

// firstMemory is how long a revert counts before the object is contested: the usual interval of GitOps controllers is ten minutes.
const firstMemory = 15 * time.Minute

// released reports whether an instruction is gone that made another controller write the object: an administrator has ended the contest.
func (c contest) released(o engine.Object) bool {
	return slices.ContainsFunc(c.instructions, func(known engine.Instruction) bool { return !slices.Contains(o.Instructions, known) })
}

// pause returns the time until the next revert. Three quick reverts in a row are immediate.
func (c contest) pause() time.Duration {
	switch {
	case c.quick < contestedAfter:
		return 0
	case c.quick == contestedAfter:
		return 2 * time.Minute
	default:
		return 10 * time.Minute
	}
}

// contested reports whether the condition names the object.
func (c contest) contested() bool { return c.reverts >= contestedAfter }

// memory is how long after the last revert another one still counts as the next in a row.
func (c contest) memory() time.Duration {
	switch {
	case c.reverts == 0:
		return time.Minute
	case c.contested():
		return c.pause() + c.slowest + time.Minute
	default:
		return firstMemory
	}
}

// reverted returns the contest after another revert.
func (c contest) reverted(now time.Time) contest {
	if c.reverts > 0 {
		idle := now.Sub(c.last.Add(c.pause()))
		if c.slowest = max(c.slowest, idle); idle > time.Minute {
			c.quick = 0
		}
	}
	c.reverts, c.quick, c.last = c.reverts+1, c.quick+1, now
	return c
}

// paused reports whether the installer must not revert an object at a time.
func (c contests) paused(o object.Identity, now time.Time) bool {
	return now.Before(c[o].last.Add(c[o].pause()))
}

// contested reports whether the condition names an object.
func (c contests) contested(o object.Identity) bool { return c[o].contested() }

// after returns the contests after a reconcile: it counts the reverts, and forgets objects that were not changed again.
func (c contests) after(result engine.Result, of scope, now time.Time) contests {
	out := contests{}
	maps.Copy(out, c)
	for o := range result.Objects() {
		known, found := out[o.Identity]
		if found && (known.released(o) || now.After(known.last.Add(known.memory()))) {
			delete(out, o.Identity)
			known = contest{}
		}
		switch {
		case !of.reverts(o.Action), o.Paused && !found:
			continue
		case o.Paused && known.reverts == 0: // released: the next reconcile reverts it
			known.last = now
		case !o.Paused:
			known = known.reverted(now)
		}
		known.change, known.instructions = changeOf(o), o.Instructions
		out[o.Identity] = known
	}
	maps.DeleteFunc(out, func(_ object.Identity, known contest) bool { return now.After(known.last.Add(known.memory())) })
	return out
}

// reissued returns the contests after Secrets of certificates were written again.
func (c contests) reissued(written []servingcert.Written, now time.Time) contests {
	for _, one := range written {
		known := c[one.Secret].reverted(now)
		known.change = one.Secret.String() + " (certificate of " + one.Service.String() + ", " + one.Change + ")"
		c[one.Secret] = known
	}
	return c
}

// changeOf describes an object that another actor has changed, with the annotations and labels that can make it do so.
func changeOf(o engine.Object) string {
	change := cmp.Or(o.Change, externalChange(o.Action))
	var instructions []string
	for _, instruction := range o.Instructions {
		instructions = append(instructions, instruction.String())
	}
	if instructions != nil {
		change += ", " + text.First(3, instructions)
	}
	return o.String() + " (" + change + ")"
}

// message describes the contested objects, and next is the time until the first pause or memory ends, or until a released object is reverted;
// empty and 0 without such objects.
func (c contests) message(now time.Time) (message string, next time.Duration) {
	var changes []string
	for _, known := range c {
		if known.reverts == 0 { // released
			next = time.Second
		}
		if !known.contested() {
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
