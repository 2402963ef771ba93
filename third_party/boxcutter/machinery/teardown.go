// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"pkg.package-operator.run/boxcutter/internal/compat"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectTeardown is the teardown of one object.
type objectTeardown struct {
	options  types.ObjectTeardownOptions
	revision int64
	// writer deletes and orphans the object.
	writer client.Writer
	// actual is the object as it was last read.
	actual Object
}

// Teardown takes one step to remove the object and reports whether it is gone. An
// object that does not belong to the revision, and an orphaned object, count as
// gone and are retained. Errors are *MisuseError and errors of the API server.
func (e *ObjectEngine) Teardown(
	ctx context.Context,
	revision int64,
	desiredObject Object,
	opts ...types.ObjectTeardownOption,
) (objectGone bool, err error) {
	outcome, err := e.teardown(ctx, revision, desiredObject, opts...)
	return outcome != outcomeWaiting, err
}

// teardownOutcome is the state of an object after a teardown step.
type teardownOutcome int

const (
	// outcomeWaiting is an object of the revision that still exists.
	outcomeWaiting teardownOutcome = iota
	// outcomeGone is an object that does not exist.
	outcomeGone
	// outcomeReleased is an object that exists and does not belong to the revision.
	outcomeReleased
)

// teardown is Teardown with the detailed outcome.
func (e *ObjectEngine) teardown(
	ctx context.Context, revision int64, desiredObject Object, opts ...types.ObjectTeardownOption,
) (teardownOutcome, error) {
	r, desired, err := e.planTeardown(revision, desiredObject, opts)
	if err != nil {
		return outcomeWaiting, err
	}
	live, err := e.readForTeardown(ctx, r, desired)
	if err != nil {
		return outcomeWaiting, err
	}
	if r.actual == nil {
		e.normalized.forget(desired)
		return outcomeGone, nil
	}
	if _, _, err := e.revisionOf(r.actual); err != nil {
		return outcomeWaiting, err
	}
	outcome, err := e.remove(ctx, r)
	if !apierrors.IsConflict(err) || live || !e.readsLive() {
		return outcome, err
	}
	return e.removeUncached(ctx, r, err)
}

// readForTeardown reads the object from the cache, or live if the cache does not
// have it, or may have it as it was before the revision adopted it.
func (e *ObjectEngine) readForTeardown(ctx context.Context, r *objectTeardown, desired Object) (live bool, err error) {
	if r.actual, err = e.read(ctx, e.cache, desired); err != nil || !e.readsLive() || !e.mayPredate(r) {
		return false, err
	}
	r.actual, err = e.read(ctx, e.unfilteredReader, desired)
	return true, err
}

// mayPredate reports whether the cached object may be older than the revision: it is
// missing, or the revision does not control it and it has no higher revision number. An
// outdated object would be released, and stay in the cluster.
func (e *ObjectEngine) mayPredate(r *objectTeardown) bool {
	if r.actual == nil {
		return true
	}
	number, marked, err := e.revisionOf(r.actual)
	return !e.controls(r) && (!marked || err != nil || number <= r.revision)
}

// readsLive reports whether a decision based on an outdated object is repeated
// once with the live object.
func (e *ObjectEngine) readsLive() bool { return e.unfilteredReader != nil && !compat.Original }

func (e *ObjectEngine) planTeardown(
	revision int64, desiredObject Object, opts []types.ObjectTeardownOption,
) (*objectTeardown, Object, error) {
	if revision < 1 {
		return nil, nil, misuse(desiredObject, "invalid revision number %d: want 1 or more", revision)
	}
	r := &objectTeardown{revision: revision, writer: e.writer}
	for _, opt := range opts {
		opt.ApplyToObjectTeardownOptions(&r.options)
	}
	r.options.Default()
	if r.options.Owner != nil && r.options.OwnerStrategy == nil {
		return nil, nil, misuse(desiredObject, "OwnerStrategy must be set if Owner is set")
	}
	if r.options.TeardownWriter != nil {
		r.writer = r.options.TeardownWriter
	}
	desired, err := e.marked(revision, desiredObject)
	return r, desired, err
}

// removeUncached repeats a removal with the live object after a conflict.
func (e *ObjectEngine) removeUncached(ctx context.Context, r *objectTeardown, conflict error) (teardownOutcome, error) {
	actual, err := e.read(ctx, e.unfilteredReader, r.actual)
	switch {
	case err != nil:
		return outcomeWaiting, fmt.Errorf("%w (%w)", conflict, err)
	case actual == nil:
		e.normalized.forget(r.actual)
		return outcomeGone, nil
	}
	if _, _, err := e.revisionOf(actual); err != nil {
		return outcomeWaiting, err
	}
	live := *r
	live.actual = actual
	return e.remove(ctx, &live)
}

func (e *ObjectEngine) remove(ctx context.Context, r *objectTeardown) (teardownOutcome, error) {
	switch {
	case !e.controls(r):
		return outcomeReleased, e.release(ctx, r)
	case r.orphans():
		return outcomeReleased, e.orphan(ctx, r)
	case r.actual.GetDeletionTimestamp() != nil:
		return outcomeWaiting, nil
	default:
		return e.delete(ctx, r)
	}
}

// controls reports whether the teardown may remove the object. With an owner, the
// owner must be its controller. Without an owner, the object must have the
// revision number and no controller.
func (e *ObjectEngine) controls(r *objectTeardown) bool {
	if r.options.Owner == nil {
		number, marked, _ := e.revisionOf(r.actual)
		return marked && number == r.revision && metav1.GetControllerOf(r.actual) == nil
	}
	return r.options.OwnerStrategy.IsController(r.options.Owner, r.actual)
}

// orphans reports whether the object is orphaned: by the option, or because the
// owner was deleted with propagation policy Orphan.
func (r *objectTeardown) orphans() bool {
	return r.options.Orphan ||
		r.options.Owner != nil && slices.Contains(r.options.Owner.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// release removes the owner from an object that it does not control.
func (e *ObjectEngine) release(ctx context.Context, r *objectTeardown) error {
	if r.options.Owner == nil {
		return nil
	}
	disowned, _ := r.actual.DeepCopyObject().(Object)
	r.options.OwnerStrategy.RemoveOwner(r.options.Owner, disowned)
	return e.patch(ctx, e.writer, r.actual, disowned)
}

// orphan removes the engine's label, annotation and owner from the object, and
// retains it.
func (e *ObjectEngine) orphan(ctx context.Context, r *objectTeardown) error {
	if compat.Original {
		return nil
	}
	orphaned, _ := r.actual.DeepCopyObject().(Object)
	if labels := orphaned.GetLabels(); labels[managedByLabel] == e.managedBy {
		delete(labels, managedByLabel)
		orphaned.SetLabels(labels)
	}
	annotations := orphaned.GetAnnotations()
	delete(annotations, e.revisionAnnotation())
	orphaned.SetAnnotations(annotations)
	if r.options.Owner != nil {
		r.options.OwnerStrategy.RemoveOwner(r.options.Owner, orphaned)
	}
	e.normalized.forget(r.actual)
	return e.patch(ctx, r.writer, r.actual, orphaned)
}

// patch sends the difference between the object as it was read and a modified copy,
// and fails if the object has changed since. It uses the field owner of the engine,
// so that other revisions do not see the change as drift.
func (e *ObjectEngine) patch(ctx context.Context, writer client.Writer, actual, changed Object) error {
	if equality.Semantic.DeepEqual(actual, changed) {
		return nil
	}
	patch := client.MergeFromWithOptions(actual, client.MergeFromWithOptimisticLock{})
	if err := writer.Patch(ctx, changed, patch, client.FieldOwner(e.fieldOwner)); err != nil && !absent(err) {
		return fmt.Errorf("releasing %s: %w", types.ToObjectRef(actual), err)
	}
	return nil
}

// delete deletes the object if it has not changed since it was read.
func (e *ObjectEngine) delete(ctx context.Context, r *objectTeardown) (teardownOutcome, error) {
	err := r.writer.Delete(ctx, handedOver(r.actual), client.Preconditions{
		UID:             ptr.To(r.actual.GetUID()),
		ResourceVersion: ptr.To(r.actual.GetResourceVersion()),
	})
	if absent(err) {
		e.normalized.forget(r.actual)
		return outcomeGone, nil
	}
	if err != nil {
		return outcomeWaiting, fmt.Errorf("deleting %s: %w", types.ToObjectRef(r.actual), err)
	}
	return outcomeWaiting, nil
}

// handedOver returns the object that a writer gets. The original passes the desired object; in compatibility mode, the
// writer gets only the identity, so that tests find writers that read more.
func handedOver(actual Object) client.Object {
	if !compat.Original {
		return actual
	}
	identity := &unstructured.Unstructured{}
	identity.SetGroupVersionKind(actual.GetObjectKind().GroupVersionKind())
	identity.SetNamespace(actual.GetNamespace())
	identity.SetName(actual.GetName())
	return identity
}
