// SPDX-License-Identifier: Apache-2.0

// Package engine applies and removes revisions with boxcutter. Its arguments and results
// are values: outside this package and the probes, the installer does not know boxcutter,
// and the engine shares no object with it.
//
// Apply takes one step: it compares the objects of each phase with the cluster, writes
// the differences, and returns the state of each object. A phase whose objects have not
// changed since is not compared again.
package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/managedcache"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Watches is a cache that watches the kinds of each owner.
type Watches interface {
	Watch(ctx context.Context, owner client.Object, kinds sets.Set[schema.GroupVersionKind]) error
	Free(ctx context.Context, owner client.Object) error
}

// Engine applies and removes revisions. It is not safe for concurrent use.
type Engine struct {
	// Owners reads and writes the owners of an object.
	Owners Owners
	// Reader reads installed objects from the cache.
	Reader client.Reader
	// Changes are the events of the cache.
	Changes *Changes

	revisions *machinery.RevisionEngine
	live      client.Reader
	versions  *versionReader
	mapper    meta.RESTMapper
	watches   Watches
	writer    *reservingWriter
	cache     managedcache.TrackingCache
	kept      keeper
}

// Apply has the options of applying a revision.
type Apply struct {
	// Ordered applies a phase only when the previous one is complete, and has the storage versions of CRDs and the webhook configurations wait for
	// the pods of their component. Otherwise all phases
	// are applied: they were complete before, and an object that becomes unready must not
	// block later phases.
	Ordered bool
	// Adopt are colliding objects that are adopted unless they have a controller.
	Adopt sets.Set[object.Identity]
	// Paused reports whether an object is only compared; nil pauses none.
	Paused func(object.Identity) bool
	// Reserved are objects that are not created again after a deletion.
	Reserved sets.Set[object.Identity]
	// Prepare is called before a phase is applied, unless the phase has not changed; nil does nothing. After an error, the phase is not applied.
	Prepare func(context.Context, revision.Phase) error
	// Older returns the objects of an older owner by its revision number; nil if they are unknown.
	// Objects that the revision shares with it get one write.
	Older func(number int64) map[object.Identity]*unstructured.Unstructured
}

// Watch has the cache watch the kinds of a revision.
func (e *Engine) Watch(ctx context.Context, rev Revision) error {
	err := e.watches.Watch(ctx, ownerOf(rev.Name), rev.kinds())
	if meta.IsNoMatchError(err) { // The original boxcutter fails; an object of a kind that is not served is rejected later.
		err = e.watches.Watch(ctx, ownerOf(rev.Name), served(e.mapper, rev.kinds()))
	}
	if err != nil {
		return fmt.Errorf("watching the objects of version %s: %w", rev.Name, err)
	}
	return nil
}

// served returns the kinds that the API server has.
func served(mapper meta.RESTMapper, kinds sets.Set[schema.GroupVersionKind]) sets.Set[schema.GroupVersionKind] {
	out := sets.New[schema.GroupVersionKind]()
	for kind := range kinds {
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); !meta.IsNoMatchError(err) {
			out.Insert(kind)
		}
	}
	return out
}

// unserved returns the rejection of the objects of a phase whose kind the API server does not have, if that is the error.
// The original boxcutter returns it as an error, not as a finding.
func unserved(mapper meta.RESTMapper, phase revision.Phase, err error) *Rejection {
	if !meta.IsNoMatchError(err) {
		return nil
	}
	var found []RejectedObject
	for _, obj := range phase.Objects {
		kind := obj.GroupVersionKind()
		if _, unknown := mapper.RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(unknown) {
			found = append(found, RejectedObject{object.IdentityOf(obj), []error{unknown}})
		}
	}
	if found == nil { // the kind is served now
		return nil
	}
	return &Rejection{Phase: phase.Name, Objects: found}
}

// Forget ends the watches that only a removed revision needed.
func (e *Engine) Forget(ctx context.Context, rev Revision) error {
	e.kept.forget(rev.Name)
	if err := e.watches.Free(ctx, ownerOf(rev.Name)); err != nil {
		return fmt.Errorf("stopping the watches of version %s: %w", rev.Name, err)
	}
	return nil
}

// Apply brings the cluster one step closer to a revision. The result of an error has the
// phases that were reached.
//
// A stale cache causes conflicts, in the original boxcutter also between its two writes of a new object. Further attempts
// resolve them when the cache has followed.
func (e *Engine) Apply(ctx context.Context, rev Revision, how Apply) (result Result, err error) {
	e.writer.reserved = how.Reserved
	err = retry.OnError(retry.DefaultBackoff, onlyConflicts, func() error {
		result, err = e.apply(ctx, rev, how)
		return err
	})
	return result, err
}

// Settle drops the kept results of all versions except one.
func (e *Engine) Settle(version string) { e.kept.settle(version) }

// Compare returns the result that Apply would have, without writing.
func (e *Engine) Compare(ctx context.Context, rev Revision) (Result, error) {
	return e.apply(ctx, rev, Apply{}, boxcutter.WithPaused{})
}

func (e *Engine) apply(ctx context.Context, rev Revision, how Apply, further ...boxcutter.RevisionReconcileOption) (Result, error) {
	if how.Ordered && e.kept.of(rev) == nil {
		if err := validation.NewRevisionValidator().Validate(ctx, e.Owners.packed(rev.Name, 0, rev.Phases...)); err != nil {
			return Result{Invalid: err}, nil
		}
	}
	common := append(further, engineOptions, sharedWith(rev, how.Older))
	var out Result
	var failed []error
	for _, part := range partsOf(rev.Phases) {
		result, err := e.applyPart(ctx, rev, part, how, common)
		out.Phases = append(out.Phases, result...)
		failed = append(failed, err)
		if apierrors.IsTooManyRequests(err) || how.Ordered && (err != nil || !(Result{Phases: result}).Complete()) {
			break
		}
	}
	return out, errors.Join(failed...)
}

// applyPart applies the phases of a component. In a rollout, the objects that wait for its pods are applied when these are ready.
func (e *Engine) applyPart(ctx context.Context, rev Revision, part []revision.Phase, how Apply, common []boxcutter.RevisionReconcileOption) (found []Phase, err error) {
	hold := holder{Engine: e, part: part, how: how}
	var failed []error
	for _, phase := range part {
		result, err := e.applyPhase(ctx, rev, phase, hold, common)
		found = append(found, result...)
		failed = append(failed, err)
		if apierrors.IsTooManyRequests(err) || how.Ordered && (err != nil || !allButHeld(result)) {
			return found, errors.Join(failed...)
		}
	}
	if !how.Ordered {
		return found, errors.Join(failed...)
	}
	return e.release(ctx, rev, hold, found, common)
}

// applyPhase applies one phase, unless it has not changed. Each phase is a boxcutter
// revision of its own, so that only its CRDs are unpacked.
func (e *Engine) applyPhase(ctx context.Context, rev Revision, phase revision.Phase, hold holder, common []boxcutter.RevisionReconcileOption) ([]Phase, error) {
	if kept, unchanged := e.kept.unchanged(ctx, rev, phase.Name); unchanged && (hold.active() || !kept.holds()) {
		return []Phase{kept}, nil
	}
	if hold.how.Prepare != nil {
		if err := hold.how.Prepare(ctx, phase); err != nil {
			return nil, err
		}
	}
	desired, err := e.desired(ctx, rev, phase)
	if err != nil {
		return nil, err
	}
	objects, held, err := hold.of(ctx, phase, desired)
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 { // all of them wait
		return withHeld([]Phase{{Name: phase.Name, Complete: true}}, held), nil
	}
	asOf := e.Changes.Count()
	e.versions.reset()
	whole := e.Owners.boxcutterRevision(phase.Owner, phase.Number, boxcutter.NewPhase(phase.Name, objects))
	result, err := e.revisions.Reconcile(ctx, whole, append(reconcileOptions(phase, e.pausing(ctx, phase, hold.how)), common...)...)
	found, err := e.Owners.phasesOf(phase.Name, result, err)
	if rejection := unserved(e.mapper, phase, err); rejection != nil {
		found, err = []Phase{{Name: phase.Name, Rejection: rejection}}, nil
	}
	e.versions.withoutEffect(found)
	found = withHeld(found, held)
	e.kept.keep(rev, found, asOf)
	return found, err
}

// Remove deletes the objects that only the owners of this revision control, last phase first. It continues with a phase
// when no object of the later ones is left.
func (e *Engine) Remove(ctx context.Context, rev Revision, how Remove) (Removal, error) {
	out := Removal{Complete: true}
	for _, phase := range slices.Backward(rev.Phases) {
		result, err := e.revisions.Teardown(ctx, e.Owners.packed(phase.Owner, phase.Number, reversed(phase)), how.options(phase)...)
		if err != nil {
			return Removal{}, err
		}
		out.Complete = result.IsComplete()
		out.Phases = append(out.Phases, removedPhases(result)...)
		if !out.Complete {
			break
		}
	}
	return out, nil
}

// Remove has the options of removing a revision.
type Remove struct {
	// Orphan are the objects that stay, without owner.
	Orphan sets.Set[object.Identity]
	// Writers delete single objects; other objects are deleted by the engine's own writer.
	Writers map[object.Identity]client.Writer
}

func (r Remove) options(phase revision.Phase) []boxcutter.RevisionTeardownOption {
	out := []boxcutter.RevisionTeardownOption{boxcutter.WithAggregatePhaseTeardownErrors(), engineOptions}
	var options []boxcutter.PhaseTeardownOption
	for _, obj := range phase.Objects {
		id := object.IdentityOf(obj)
		if r.Orphan.Has(id) {
			options = append(options, boxcutter.WithObjectTeardownOptions(obj, types.WithOrphan()))
		} else if writer := r.Writers[id]; writer != nil {
			options = append(options, boxcutter.WithObjectTeardownOptions(obj, types.WithTeardownWriter(writer)))
		}
	}
	if options != nil {
		out = append(out, boxcutter.WithPhaseTeardownOptions(phase.Name, options...))
	}
	return out
}

// Controlled returns a revision with the objects that its owners control, and no others.
func (e *Engine) Controlled(ctx context.Context, rev Revision, reader client.Reader) (Revision, error) {
	out := rev
	out.Key, out.Phases = "", nil
	for _, phase := range rev.Phases {
		kept := phase
		kept.Objects = nil
		for _, obj := range phase.Objects {
			controls, err := e.Owners.controlsIn(ctx, phase.Owner, obj, reader)
			if err != nil {
				return Revision{}, err
			}
			if controls {
				kept.Objects = append(kept.Objects, obj)
			}
		}
		if kept.Objects != nil {
			out.Phases = append(out.Phases, kept)
		}
	}
	return out, nil
}

// controlsIn reports whether an owner controls the object that a reader has.
func (o Owners) controlsIn(ctx context.Context, owner string, obj *unstructured.Unstructured, reader client.Reader) (bool, error) {
	actual, err := referenceTo(obj).Read(ctx, reader)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", object.Describe(obj), err)
	}
	return o.Controls(owner, actual), nil
}
