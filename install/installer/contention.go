// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Another actor that restores its own value of a field after each revert would cause a write, an event and a status update each time, without end.
// So a rate limiter delays the third revert of an object and each further one. During the delay the installer only compares the object. The
// condition names the fields and the field managers, also of an actor that acts less often than the reverts, such as a GitOps controller.

const (
	// contestedAfter is the number of reverts after that the condition names the object.
	contestedAfter = 3
	// revertDelay is the time between the reverts of such an object.
	revertDelay = 5 * time.Minute
	// revertMemory is how long a revert counts after the last one: the usual interval of GitOps controllers is ten minutes.
	revertMemory = 15 * time.Minute
)

// contention limits the reverts of objects. The zero value is ready. A restart counts the reverts again.
type contention struct {
	limiter  workqueue.TypedRateLimiter[subject]
	contests map[subject]contest
}

// subject is an object in a plan, by its key. Another version, or another drift policy, is not delayed.
type subject struct {
	plan string
	object.Identity
}

// contest is an object that was reverted lately.
type contest struct {
	last  time.Time
	delay time.Duration
	// change describes the object, the fields, the field managers, and the instructions.
	change string
	// instructions of the object address other controllers.
	instructions []engine.Instruction
}

// paused reports whether the installer must not revert an object at a time.
func (c *contention) paused(of subject, now time.Time) bool {
	return now.Before(c.contests[of].last.Add(c.contests[of].delay))
}

// contested reports whether the condition names an object.
func (c *contention) contested(of subject) bool {
	return c.limiter != nil && c.limiter.NumRequeues(of) >= contestedAfter
}

// reverted counts a revert.
func (c *contention) reverted(of subject, now time.Time, change string, instructions []engine.Instruction) {
	if c.limiter == nil {
		c.limiter, c.contests = workqueue.NewTypedItemFastSlowRateLimiter[subject](0, revertDelay, contestedAfter-1), map[subject]contest{}
	}
	c.contests[of] = contest{now, c.limiter.When(of), change, instructions}
}

// forget ends the contest about an object.
func (c *contention) forget(of subject) {
	c.limiter.Forget(of)
	delete(c.contests, of)
}

// after counts the reverts of a reconcile, and returns a message about the contested objects of the plan; empty without any. A contest ends when no
// revert follows the last one, or when an instruction is gone that can have made another controller write the object.
func (c *contention) after(plan string, result engine.Result, of scope, reissued []servingcert.Served, now time.Time) string {
	for known, contest := range c.contests {
		if now.Sub(contest.last) > revertMemory {
			c.forget(known)
		}
	}
	for o := range result.Objects() {
		if of.reverts(o.Action) && !o.Paused {
			c.reverted(subject{plan, o.Identity}, now, changeOf(o), o.Instructions)
		}
	}
	for _, one := range reissued {
		c.reverted(subject{plan, one.Secret}, now, one.Secret.String()+" (certificate of "+one.Service.String()+", "+one.Change+")", nil)
	}
	var changes []string
	for known, contest := range c.contests {
		if known.plan == plan && c.contested(known) {
			changes = append(changes, contest.change)
		}
	}
	for o := range result.Objects() {
		known := subject{plan, o.Identity}
		if slices.ContainsFunc(c.contests[known].instructions, func(i engine.Instruction) bool { return !slices.Contains(o.Instructions, i) }) {
			c.forget(known) // the next reconcile reverts the object
		}
	}
	if changes == nil {
		return ""
	}
	slices.Sort(changes)
	return "another actor keeps changing what the installer has reverted: " + text.First(10, changes)
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
