// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter/internal/compat"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// plan is the planned action for one object. Planning does not write.
type plan struct {
	action  Action
	options types.ObjectReconcileOptions
	// revision is the number of the revision.
	revision int64
	// source is the caller's object.
	source Object
	// desired is a copy of source with the label, the annotation and the owner.
	desired Object
	// actual is the object as it was read, nil if it does not exist.
	actual Object
	// comparison is the difference between desired and actual.
	comparison CompareResult
	// live is true if actual was not read from the cache.
	live bool
	// awaits is true if the namespace or the kind of the object is created by the
	// same phase, so that a dry run would fail.
	awaits bool
	// handover is true if the object has the controller of another revision.
	handover bool
	// same is true if the revision that the object passes from has the same object.
	same bool
	// unchanged is true if the write only replaces the marks of a sibling: the
	// content stays the same.
	unchanged bool
	// answer is the API server's response to the dry run of the write, nil if there was none.
	answer *unstructured.Unstructured
	// unchecked is true if the write itself is the check, without a dry run.
	unchecked bool
	// failed is true if the execution returned an error.
	failed bool
	// force takes ownership of fields of other field managers.
	force bool
	// controller is the controller of an object with a collision.
	controller *metav1.OwnerReference
}

// writes reports whether the plan changes the object.
func (p *plan) writes() bool {
	return p.action == ActionCreated || p.action == ActionUpdated || p.action == ActionRecovered
}

// failedUnchecked reports whether the write failed without an earlier dry run.
func (p *plan) failedUnchecked() bool { return p.unchecked && p.failed }

// plan reads the object and decides on the action.
func (e *ObjectEngine) plan(
	ctx context.Context, revision int64, desiredObject Object, opts ...types.ObjectReconcileOption,
) (*plan, error) {
	if revision < 1 {
		return nil, misuse(desiredObject, "invalid revision number %d: want 1 or more", revision)
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

// own makes the owner, if any, the controller of the desired object.
func (p *plan) own() error {
	if p.options.Owner == nil {
		return nil
	}
	return p.options.OwnerStrategy.SetControllerReference(p.options.Owner, p.desired)
}

// ownership is the relation of an object to the revision.
type ownership int

const (
	ownerNone    ownership = iota // the object has no controller
	ownerSelf                     // the owner of the revision
	ownerSibling                  // the owner of another revision
	ownerOther                    // another controller
)

// ownershipOf returns the ownership and the controller of the actual object.
//
// With an owner, its strategy finds the controller. A controller in owner
// references that the strategy does not read counts as another controller. Without
// an owner, the revision annotation identifies the objects of the revision, unless
// the object has a controller and the collision protection forbids adoption.
func (e *ObjectEngine) ownershipOf(actual Object, options types.ObjectReconcileOptions) (ownership, *metav1.OwnerReference) {
	native := metav1.GetControllerOf(actual)
	if options.Owner == nil {
		return e.ownershipWithoutOwner(actual, native, options)
	}
	controller, found := options.OwnerStrategy.GetController(actual)
	switch {
	case !found && native != nil:
		return ownerOther, native
	case !found:
		return ownerNone, nil
	case options.OwnerStrategy.IsController(options.Owner, actual):
		return ownerSelf, &controller
	case options.SiblingOwnerClassifier(controller):
		return ownerSibling, &controller
	default:
		return ownerOther, &controller
	}
}

func (e *ObjectEngine) ownershipWithoutOwner(
	actual Object, native *metav1.OwnerReference, options types.ObjectReconcileOptions,
) (ownership, *metav1.OwnerReference) {
	_, marked := actual.GetAnnotations()[e.revisionAnnotation()]
	sibling := native != nil && options.SiblingOwnerClassifier(*native)
	switch {
	case native != nil && !sibling && (!marked || options.CollisionProtection != types.CollisionProtectionNone):
		return ownerOther, native
	case marked:
		return ownerSelf, native
	case sibling:
		return ownerSibling, native
	default:
		return ownerNone, nil
	}
}

// decide completes the plan.
func (e *ObjectEngine) decide(p *plan) error {
	if p.actual == nil {
		p.action = ActionCreated
		return p.own()
	}
	if err := e.decideExisting(p); err != nil {
		return err
	}
	comparison, err := e.comparator.Compare(p.desired, p.actual)
	if err != nil {
		return err
	}
	p.comparison = comparison
	if p.action == ActionIdle {
		e.decideDrift(p)
	}
	p.unchanged = p.handover && p.writes() && e.changesOnlyMarks(p)
	return nil
}

// changesOnlyMarks reports whether the write changes only fields that the caller's
// object does not have: the label, the annotations and the owner references that
// identify the revision. The engine must own no field that the write drops.
func (e *ObjectEngine) changesOnlyMarks(p *plan) bool {
	if p.comparison.Comparison == nil || p.comparison.IsConflict() ||
		e.drops(p, metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate) {
		return false
	}
	mark := func(path fieldpath.Path) bool { return isMark(p.source, path) }
	return all(p.comparison.Comparison.Modified, mark) && all(p.comparison.Comparison.Removed, mark)
}

// drops reports whether the write drops fields of the engine that it has set with one of
// the operations.
func (e *ObjectEngine) drops(p *plan, operations ...metav1.ManagedFieldsOperationType) bool {
	return !p.same && dropsFields(p.actual, p.comparison.DesiredFieldSet, e.fieldOwner, operations...)
}

// isMark reports whether a path is a label, an annotation or an owner reference that
// the caller's object does not have.
func isMark(source Object, path fieldpath.Path) bool {
	if len(path) < 2 || !isField(path[0], "metadata") {
		return false
	}
	switch {
	case isField(path[1], "ownerReferences"):
		return true
	case len(path) < 3 || path[2].FieldName == nil:
		return false
	case isField(path[1], "labels"):
		_, desired := source.GetLabels()[*path[2].FieldName]
		return !desired
	case isField(path[1], "annotations"):
		_, desired := source.GetAnnotations()[*path[2].FieldName]
		return !desired
	default:
		return false
	}
}

func isField(element fieldpath.PathElement, name string) bool {
	return element.FieldName != nil && *element.FieldName == name
}

// decideExisting decides on the action from the ownership of an existing object.
// ActionIdle means that the object belongs to the revision and must be compared.
// Collisions take precedence over the order of revisions.
func (e *ObjectEngine) decideExisting(p *plan) error {
	if _, _, err := e.revisionOf(p.actual); err != nil {
		return err
	}
	owner, controller := e.ownershipOf(p.actual, p.options)
	p.controller = controller
	switch owner {
	case ownerSelf:
		p.action = ActionIdle
		return p.keepOwners()
	case ownerSibling:
		return e.decideSibling(p)
	case ownerOther:
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
		p.handover = true
		p.same = p.options.UnchangedSince != nil && p.options.UnchangedSince(p.source, number)
		return p.adoptIf(number < p.revision)
	}
}

// adoptIf adopts the object if allowed, else reports a collision. An adopted
// object keeps its owners; only the controller changes.
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

// decideDrift decides on the action for an object of the revision.
func (e *ObjectEngine) decideDrift(p *plan) {
	switch {
	case p.comparison.IsConflict():
		p.action, p.force = ActionRecovered, true
	case p.comparison.differs() && (compat.Original || !e.normalized.matches(p.desired, p.actual, p.comparison)):
		p.action = ActionUpdated
	}
}

// perhapsNormalized reports whether only values differ that the API server may have
// normalized: no other field manager owns them, and they are not metadata.
func (p *plan) perhapsNormalized() bool {
	return p.action == ActionUpdated && !p.force &&
		all(p.comparison.Comparison.Modified, isContent) && all(p.comparison.Comparison.Removed, isContent)
}

// isContent reports whether a path does not lead to metadata.
func isContent(path fieldpath.Path) bool { return len(path) > 0 && !isField(path[0], "metadata") }

func (p *plan) keepOwners() error {
	if p.options.Owner == nil {
		return nil
	}
	return keepOwners(p.options.Owner, p.options.OwnerStrategy, p.desired, p.actual)
}

// keepOwners makes the owner the controller of the desired object and keeps its
// other owners. Owner references need no copy, because an apply merges the list.
// An annotation has all owners in one value, so it is copied.
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
