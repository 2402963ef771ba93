// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Apply brings the cluster one step closer to a revision. The result of an error has the
// phases that were reached.
//
// A stale cache causes conflicts, in the original boxcutter also between its two writes of a new object. Further attempts
// resolve them when the cache has followed.
func (e *Engine) Apply(ctx context.Context, rev Revision, how Apply) (result Result, err error) {
	ctx = context.WithValue(ctx, applyKey{}, how)
	how.Older = Remembered(how.Older)
	err = retry.OnError(retry.DefaultBackoff, onlyConflicts, func() error {
		result, err = application{e, rev, how, sharedWith(rev, how.Older), false}.apply(ctx)
		return err
	})
	return result, err
}

// Compare returns the result that Apply would have, without writing.
func (e *Engine) Compare(ctx context.Context, rev Revision) (Result, error) {
	return application{e, rev, Apply{}, nil, true}.apply(ctx)
}

// application is one attempt to apply a revision.
type application struct {
	engine *Engine
	rev    Revision
	how    Apply
	shared unchangedSince // nil without older versions
	paused bool           // nothing is written
}

func (a application) apply(ctx context.Context) (Result, error) {
	if a.how.Ordered && a.engine.kept.of(a.rev) == nil {
		if err := validation.NewRevisionValidator().Validate(ctx, a.engine.Owners.copied(a.rev.Name, 0, a.rev.Phases...)); err != nil {
			return Result{Invalid: err}, nil //nolint:nilerr // the result has it
		}
	}
	var out Result
	var failed []error
	for _, part := range partsOf(a.rev.Phases) {
		result, err := a.applyPart(ctx, part)
		out.Phases = append(out.Phases, result...)
		failed = append(failed, err)
		if apierrors.IsTooManyRequests(err) || a.how.Ordered && (err != nil || !(Result{Phases: result}).Complete()) {
			break
		}
	}
	return out, errors.Join(failed...)
}

// partsOf divides phases into the ones of each component.
func partsOf(phases []revision.Phase) (parts [][]revision.Phase) {
	for i, phase := range phases {
		if i == 0 || phase.Part != phases[i-1].Part {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], phase)
	}
	return parts
}

// applyPart applies the phases of a component. In a rollout, the objects that wait for its pods are applied when these are ready.
func (a application) applyPart(ctx context.Context, part []revision.Phase) (found []Phase, err error) {
	hold := holder{a.engine.Owners, a.engine.Reader, a.engine.live, part, a.how.Adopt, a.how.Ordered, a.how.Replaced, false}
	if a.how.Ordered {
		if hold.shrinks, err = hold.shrink(ctx); err != nil {
			return nil, err
		}
	}
	var failed []error
	for _, phase := range part {
		result, err := a.applyPhase(ctx, phase, hold)
		found = append(found, result...)
		failed = append(failed, err)
		if apierrors.IsTooManyRequests(err) || a.how.Ordered && (err != nil || !allButHeld(result)) {
			return found, errors.Join(failed...)
		}
	}
	if !a.how.Ordered {
		return found, errors.Join(failed...)
	}
	return a.release(ctx, hold, found)
}

// applyPhase applies one phase, unless it has not changed. Each phase is a boxcutter
// revision, because unchanged phases are left out.
func (a application) applyPhase(ctx context.Context, phase revision.Phase, hold holder) ([]Phase, error) {
	if kept, unchanged := a.engine.kept.unchanged(ctx, a.rev, phase.Name); unchanged && (hold.active || !kept.holds()) {
		return []Phase{kept}, nil
	}
	if a.how.Prepare != nil {
		if err := a.how.Prepare(ctx, phase, !hold.active); err != nil {
			return nil, err
		}
	}
	desired, err := a.desired(ctx, phase)
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
	asOf, seen := a.engine.Changes.Count(), &reads{take: func(ctx context.Context, live *unstructured.Unstructured) error {
		for _, o := range objects {
			if desired, is := o.(*unstructured.Unstructured); is && object.IdentityOf(o) == object.IdentityOf(live) {
				return a.takeOver(ctx, phase.Owner, live, desired)
			}
		}
		return nil
	}}
	whole := a.engine.Owners.boxcutterRevision(phase.Owner, phase.Number, boxcutter.NewPhase(phase.Name, objects))
	options := reconcileOptions(phase, pausing(ctx, a.engine.Reader, phase, a.how), a.shared)
	if a.paused {
		options = append(options, boxcutter.WithPaused{})
	}
	result, err := a.engine.revisions.Reconcile(seen.in(ctx), whole, options...)
	found, err := a.engine.Owners.phasesOf(phase.Name, result, err)
	if rejection := a.unserved(phase, err); rejection != nil {
		found, err = []Phase{{Name: phase.Name, Rejection: rejection}}, nil
	}
	if !a.how.Ordered && len(held) > 0 { // until the next version takes the CRD over
		return withHeld(found, nil), err
	}
	found = withHeld(seen.compared(found), held)
	a.engine.kept.keep(a.rev, found, asOf)
	return found, err
}

// desired returns the objects of a phase as they can be applied, without the fields that are left to other actors.
func (a application) desired(ctx context.Context, phase revision.Phase) ([]*unstructured.Unstructured, error) {
	objects := make([]*unstructured.Unstructured, len(phase.Objects))
	for i, obj := range phase.Objects {
		var err error
		if objects[i], err = a.left(ctx, revision.Applied(obj)); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// unserved returns the rejection of the objects of a phase whose kind the API server does not have, if that is the error.
// The original boxcutter returns it as an error, not as a finding.
func (a application) unserved(phase revision.Phase, err error) *Rejection {
	if !meta.IsNoMatchError(err) {
		return nil
	}
	var found []RejectedObject
	for _, obj := range phase.Objects {
		kind := obj.GroupVersionKind()
		if _, unknown := a.engine.mapper.RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(unknown) {
			found = append(found, RejectedObject{object.IdentityOf(obj), []error{unknown}})
		}
	}
	if found == nil { // the kind is served now
		return nil
	}
	return &Rejection{Phase: phase.Name, Objects: found}
}

// release applies the phases with objects that waited, the last phase first, and returns the results of all phases of the component.
// The webhook configurations are applied as soon as the instance of one CRD can be read: until then, the API server calls paths that the new pods lack.
func (a application) release(ctx context.Context, hold holder, results []Phase) ([]Phase, error) {
	var unread []string
	for o := range (Result{Phases: results}).Objects() {
		if isHeldCRD(o) {
			unread = append(unread, o.Name)
		}
	}
	unread, err := a.readable(ctx, unread, hold.shrinks)
	if err != nil {
		return results, err
	}
	hold.active, hold.shrinks = false, false
	for i := len(results) - 1; i >= 0; i-- {
		if !results[i].holds() {
			continue
		}
		for len(unread) > 0 && slices.ContainsFunc(results[i].Objects, isHeldCRD) {
			if unread, err = a.readable(ctx, unread, hold.shrinks); err != nil {
				return results, err
			}
		}
		at := slices.IndexFunc(hold.part, func(phase revision.Phase) bool { return phase.Name == results[i].Name })
		log.FromContext(ctx).Info("The pods of a component are ready, so the objects are applied that waited for them", "phase", results[i].Name)
		now, err := a.applyPhase(ctx, hold.part[at], hold)
		if len(now) > 0 {
			results[i] = now[0]
		}
		if err != nil || !allButHeld(now) {
			return results, err
		}
	}
	return results, nil
}

// isHeldCRD reports whether a CRD or its storage version waits.
func isHeldCRD(o Object) bool { return o.Held != "" && o.GroupKind == object.CustomResourceDefinition }

// connectionTime is how long the connections of the API server to pods that end may stay open.
const connectionTime = 10 * time.Second

// readable reads an instance of one of the CRDs, and returns the CRDs after it. It returns an error if the instance cannot be read: the storage
// version does not switch then. The API server keeps its connections to an old pod until the pod ends, and that pod cannot convert. So this waits:
// objects that wait for the new pods are applied in the moment in which they answer. If the component shrinks, only the old pod converts to the version
// that CRDs lose, so this waits for the first error, and reads no further CRD.
func (a application) readable(ctx context.Context, crds []string, shrinks bool) (unread []string, err error) {
	limited, cancel := context.WithTimeout(ctx, connectionTime)
	defer cancel()
	for i := 0; i < len(crds) && a.how.Readable != nil; i++ {
		var found bool
		_ = wait.PollUntilContextCancel(limited, 100*time.Millisecond, true, func(context.Context) (bool, error) {
			found, err = a.how.Readable(ctx, crds[i])
			return (err == nil) != shrinks || err == nil && !found, nil
		})
		if found && shrinks {
			return nil, nil
		}
		if found || err != nil {
			return crds[i+1:], err
		}
	}
	return nil, nil
}

// onlyConflicts reports whether an error consists only of Conflict errors: writes to
// objects that another client has changed since they were read.
func onlyConflicts(err error) bool {
	causes := Causes(err)
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(cause error) bool { return !apierrors.IsConflict(cause) })
}

// Causes returns the errors in a tree of joined and wrapped errors that have no cause themselves, and the answers of the API server.
func Causes(err error) (causes []error) {
	switch wrapped := err.(type) { //nolint:errorlint // walks the tree itself
	case apierrors.APIStatus:
		return []error{err}
	case interface{ Unwrap() error }:
		return Causes(wrapped.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range wrapped.Unwrap() {
			causes = append(causes, Causes(one)...)
		}
		return causes
	default:
		return []error{err}
	}
}
