// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// removal is one object on its way out.
type removal struct {
	options  types.ObjectTeardownOptions
	revision int64
	writer   client.Writer
	// actual is the object as it was read.
	actual Object
}

// Teardown takes one step to remove the object, and says whether it is gone. An
// object that is not ours, or not any more, counts as gone and stays where it
// is; so does one that is orphaned, which means that our marks are removed from
// it. Errors are *MisuseError and those of the API server.
func (e *ObjectEngine) Teardown(
	ctx context.Context,
	revision int64,
	desiredObject Object,
	opts ...types.ObjectTeardownOption,
) (objectGone bool, err error) {
	fate, err := e.tearDown(ctx, revision, desiredObject, opts...)
	return fate != waiting, err
}

// fate is what has become of an object that is torn down.
type fate int

const (
	// waiting is for what is ours and still there.
	waiting fate = iota
	// gone is not there.
	gone
	// released is there, and not ours (any more).
	released
)

// tearDown is Teardown, and tells more.
func (e *ObjectEngine) tearDown(
	ctx context.Context, revision int64, desiredObject Object, opts ...types.ObjectTeardownOption,
) (fate, error) {
	r, desired, err := e.removal(revision, desiredObject, opts)
	if err != nil {
		return waiting, err
	}
	reader := e.cache
	if r.actual, err = e.read(ctx, reader, desired); err != nil {
		return waiting, err
	}
	if r.actual == nil && e.unfilteredReader != nil {
		reader = e.unfilteredReader
		if r.actual, err = e.read(ctx, reader, desired); err != nil {
			return waiting, err
		}
	}
	if r.actual == nil {
		e.settled.forget(desired)
		return gone, nil
	}
	fate, err := e.remove(ctx, r)
	if !apierrors.IsConflict(err) || e.unfilteredReader == nil || reader == e.unfilteredReader {
		return fate, err
	}
	return e.removeLive(ctx, r, err)
}

func (e *ObjectEngine) removal(
	revision int64, desiredObject Object, opts []types.ObjectTeardownOption,
) (*removal, Object, error) {
	if revision < 1 {
		return nil, nil, misuse(desiredObject, "revision numbers start at 1, given was %d", revision)
	}
	r := &removal{revision: revision, writer: e.writer}
	for _, opt := range opts {
		opt.ApplyToObjectTeardownOptions(&r.options)
	}
	r.options.Default()
	if r.options.Owner != nil && r.options.OwnerStrategy == nil {
		return nil, nil, misuse(desiredObject, "an owner is given without an owner strategy")
	}
	if r.options.TeardownWriter != nil {
		r.writer = r.options.TeardownWriter
	}
	desired, err := e.marked(revision, desiredObject)
	return r, desired, err
}

// removeLive tries once more with the object as it is now, after it turned out
// that the one the cache shows is out of date.
func (e *ObjectEngine) removeLive(ctx context.Context, r *removal, conflict error) (fate, error) {
	actual, err := e.read(ctx, e.unfilteredReader, r.actual)
	switch {
	case err != nil:
		return waiting, fmt.Errorf("%w (%w)", conflict, err)
	case actual == nil:
		e.settled.forget(r.actual)
		return gone, nil
	}
	live := *r
	live.actual = actual
	return e.remove(ctx, &live)
}

func (e *ObjectEngine) remove(ctx context.Context, r *removal) (fate, error) {
	switch {
	case !e.holds(r):
		return released, e.release(ctx, r)
	case r.orphans():
		return released, e.orphan(ctx, r)
	case r.actual.GetDeletionTimestamp() != nil:
		return waiting, nil
	}
	used, err := e.inUse(ctx, r)
	switch {
	case err != nil:
		return waiting, err
	case used:
		return released, e.orphan(ctx, r)
	default:
		return e.delete(ctx, r)
	}
}

// holds says whether the object is ours to remove. With an owner it is when the
// owner is its controller, unless we have passed it on to a newer revision of
// the same owner. Without an owner it is when it is marked with our revision and
// nobody else is its controller.
func (e *ObjectEngine) holds(r *removal) bool {
	if r.options.Owner == nil {
		number, marked, err := e.revisionOf(r.actual)
		return marked && err == nil && number == r.revision && metav1.GetControllerOf(r.actual) == nil
	}
	return r.options.OwnerStrategy.IsController(r.options.Owner, r.actual) && !e.newer(r.actual, r.revision, false)
}

// orphans says whether the object is to stay, for our option or for what the
// owner was deleted with.
func (r *removal) orphans() bool {
	return r.options.Orphan ||
		r.options.Owner != nil && slices.Contains(r.options.Owner.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// release removes our owner from an object that it does not control. An owner
// that still controls it for a newer revision stays.
func (e *ObjectEngine) release(ctx context.Context, r *removal) error {
	if r.options.Owner == nil || r.options.OwnerStrategy.IsController(r.options.Owner, r.actual) {
		return nil
	}
	disowned, _ := r.actual.DeepCopyObject().(Object)
	r.options.OwnerStrategy.RemoveOwner(r.options.Owner, disowned)
	return e.patch(ctx, r, disowned)
}

// orphan removes our marks from the object and leaves it.
func (e *ObjectEngine) orphan(ctx context.Context, r *removal) error {
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
	e.settled.forget(r.actual)
	return e.patch(ctx, r, orphaned)
}

// patch writes what was changed in a copy of the object, if the object is still
// as it was read. An object that is gone needs no change any more. The change is
// made as our field owner: another of our revisions, which may have the object by
// now, is not to take it for an intruder's.
func (e *ObjectEngine) patch(ctx context.Context, r *removal, changed Object) error {
	if equality.Semantic.DeepEqual(r.actual, changed) {
		return nil
	}
	patch := client.MergeFromWithOptions(r.actual, client.MergeFromWithOptimisticLock{})
	if err := r.writer.Patch(ctx, changed, patch, client.FieldOwner(e.fieldOwner)); err != nil && !absent(err) {
		return fmt.Errorf("releasing %s: %w", types.ToObjectRef(r.actual), err)
	}
	return nil
}

// delete asks for the deletion of exactly the object that was looked at.
func (e *ObjectEngine) delete(ctx context.Context, r *removal) (fate, error) {
	err := r.writer.Delete(ctx, r.actual, client.Preconditions{
		UID:             ptr.To(r.actual.GetUID()),
		ResourceVersion: ptr.To(r.actual.GetResourceVersion()),
	})
	if absent(err) {
		e.settled.forget(r.actual)
		return gone, nil
	}
	if err != nil {
		return waiting, fmt.Errorf("deleting %s: %w", types.ToObjectRef(r.actual), err)
	}
	return waiting, nil
}
