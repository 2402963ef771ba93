// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// plan is what is to be done with one object. It is found out by reading alone.
type plan struct {
	action  Action
	options types.ObjectReconcileOptions
	// revision is the number of the revision at work.
	revision int64
	// source is the object as the caller has given it.
	source Object
	// desired is a copy of it with our marks, ready to be written.
	desired Object
	// actual is the object as it was read, nil when it is to be created.
	actual Object
	// live says that actual was read past the cache.
	live bool
	// awaits says that the object needs something that its phase is about to
	// create, so that a dry run would fail before that is there.
	awaits bool
	// force has fields of other managers taken over.
	force bool
	// controller is who controls an object that we collide with.
	controller *metav1.OwnerReference
}

// writes says whether the plan changes the object.
func (p *plan) writes() bool {
	return p.action == ActionCreated || p.action == ActionUpdated || p.action == ActionRecovered
}

// plan reads the object and decides what to do with it.
func (e *ObjectEngine) plan(
	ctx context.Context, revision int64, desiredObject Object, opts ...types.ObjectReconcileOption,
) (*plan, error) {
	if revision < 1 {
		return nil, misuse(desiredObject, "revision numbers start at 1, given was %d", revision)
	}
	options, err := reconcileOptions(desiredObject, opts)
	if err != nil {
		return nil, err
	}
	desired, err := e.marked(revision, desiredObject)
	if err != nil {
		return nil, err
	}
	actual, err := e.read(ctx, e.cache, desired)
	if err != nil {
		return nil, err
	}
	p := &plan{options: options, revision: revision, source: desiredObject, desired: desired, actual: actual}
	return p, e.decide(p)
}

// own makes our owner, if there is one, the controller of the desired object.
func (p *plan) own() error {
	if p.options.Owner == nil {
		return nil
	}
	return p.options.OwnerStrategy.SetControllerReference(p.options.Owner, p.desired)
}

// claim says whose an object is.
type claim int

const (
	claimNone    claim = iota // nobody's
	claimOurs                 // ours
	claimSibling              // of the owner of another revision
	claimForeign              // of somebody else
)

// claimOn finds out whose the actual object is, and who controls it.
//
// With an owner, its strategy says who the controller is. A controller in the
// owner references that the strategy does not look at is somebody else all the
// same. Without an owner, our annotation makes the object ours, unless somebody
// else is its controller and we are not to take anything over.
func (e *ObjectEngine) claimOn(actual Object, options types.ObjectReconcileOptions) (claim, *metav1.OwnerReference) {
	native := metav1.GetControllerOf(actual)
	if options.Owner == nil {
		return e.claimWithoutOwner(actual, native, options)
	}
	controller, found := options.OwnerStrategy.GetController(actual)
	switch {
	case !found && native != nil:
		return claimForeign, native
	case !found:
		return claimNone, nil
	case options.OwnerStrategy.IsController(options.Owner, actual):
		return claimOurs, &controller
	case options.SiblingOwnerClassifier(controller):
		return claimSibling, &controller
	default:
		return claimForeign, &controller
	}
}

func (e *ObjectEngine) claimWithoutOwner(
	actual Object, native *metav1.OwnerReference, options types.ObjectReconcileOptions,
) (claim, *metav1.OwnerReference) {
	_, marked := actual.GetAnnotations()[e.revisionAnnotation()]
	sibling := native != nil && options.SiblingOwnerClassifier(*native)
	switch {
	case native != nil && !sibling && (!marked || options.CollisionProtection != types.CollisionProtectionNone):
		return claimForeign, native
	case marked:
		return claimOurs, native
	case sibling:
		return claimSibling, native
	default:
		return claimNone, nil
	}
}

// decide completes the plan. Whether we may have an object that exists is decided
// before the order of revisions is looked at.
func (e *ObjectEngine) decide(p *plan) error {
	if p.actual == nil {
		p.action = ActionCreated
		return p.own()
	}
	claim, controller := e.claimOn(p.actual, p.options)
	p.controller = controller
	switch claim {
	case claimOurs:
		return e.decideOurs(p)
	case claimSibling:
		return e.decideSibling(p)
	case claimForeign:
		return p.adoptIf(p.options.CollisionProtection == types.CollisionProtectionNone)
	default:
		_, marked := p.actual.GetAnnotations()[e.revisionAnnotation()]
		return p.adoptIf(!marked && p.options.CollisionProtection != types.CollisionProtectionPrevent)
	}
}

func (e *ObjectEngine) decideSibling(p *plan) error {
	number, _, err := e.revisionOf(p.actual)
	switch {
	case err != nil:
		return err
	case number > p.revision:
		p.action = ActionProgressed
		return nil
	default:
		return p.adoptIf(number < p.revision)
	}
}

// adoptIf takes the object over, or else leaves it as a collision. The owners
// that it has stay its owners; only the controller changes.
func (p *plan) adoptIf(allowed bool) error {
	if !allowed {
		p.action = ActionCollision
		return nil
	}
	p.action, p.force = ActionUpdated, true
	if p.options.Owner == nil {
		return nil
	}
	p.options.OwnerStrategy.CopyOwnerReferences(p.actual, p.desired)
	p.options.OwnerStrategy.ReleaseController(p.desired)
	return p.own()
}

// decideOurs compares an object that is ours with what is desired.
func (e *ObjectEngine) decideOurs(p *plan) error {
	if e.newer(p.actual, p.revision, p.options.Owner == nil) {
		p.action = ActionProgressed
		return nil
	}
	if p.options.Owner != nil {
		if err := keepOwners(p.options.Owner, p.options.OwnerStrategy, p.desired, p.actual); err != nil {
			return err
		}
	}
	result, err := e.comparator.Compare(p.desired, p.actual)
	if err != nil {
		return err
	}
	switch {
	case result.IsConflict():
		p.action, p.force = ActionRecovered, true
	case result.differs() && !e.settled.covers(p.desired, p.actual, result):
		p.action = ActionUpdated
	default:
		p.action = ActionIdle
	}
	return nil
}

// keepOwners makes the owner the controller of the desired object, and leaves
// other owners where they are. In owner references they stay by themselves,
// because those are a list that apply merges. Elsewhere all owners are one value.
func keepOwners(owner client.Object, strategy types.OwnerStrategy, desired, actual Object) error {
	if err := strategy.SetControllerReference(owner, desired); err != nil || len(desired.GetOwnerReferences()) > 0 {
		return err
	}
	strategy.CopyOwnerReferences(actual, desired)
	if strategy.IsController(owner, desired) {
		return nil
	}
	strategy.ReleaseController(desired)
	return strategy.SetControllerReference(owner, desired)
}

// newer says whether an object that is ours belongs to a newer revision.
//
// Without an owner the annotation alone says so. An owner may have several
// revisions too, but then the annotation counts only if it is we who wrote it:
// whoever edits it by hand must not stop us from looking after the object.
func (e *ObjectEngine) newer(actual Object, revision int64, ownerless bool) bool {
	number, _, err := e.revisionOf(actual)
	if err != nil || number <= revision {
		return false
	}
	return ownerless || e.wroteRevision(actual)
}
