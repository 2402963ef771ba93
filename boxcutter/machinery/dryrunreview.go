// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
)

// Not every "invalid" of a dry-run is one. Two are looked into:
//
// An object that is to be created may be there, unseen by a cache that is filtered,
// and be somebody else's. What the dry-run would have made of it is then nonsense,
// such as an object with two controllers. The object is read and decided anew.
//
// And an object that we have created and never applied is judged with fields that
// we do not want any more: an apply drops only what was applied before. So a
// Deployment is refused that goes from RollingUpdate with parameters to Recreate.
// The managed fields are migrated, which changes nothing but the record of who
// holds what.

// verdict is what to think of a refusal.
type verdict int

const (
	verdictStands  verdict = iota // it is right
	verdictAgain                  // what was in doubt is mended: ask again
	verdictUnknown                // what is in doubt cannot be mended now
)

// reconsider looks at what the validator found. It is true when the validator is
// to be asked again, and else returns what is left of the finding.
func (e *PhaseEngine) reconsider(ctx context.Context, steps []step, finding error) (again bool, err error) {
	found := asPointer[validation.PhaseValidationError](finding)
	planner, plans := e.objectEngine.(planner)
	if found == nil || !plans {
		return false, finding
	}
	var standing []validation.ObjectValidationError
	for _, object := range found.Objects {
		thought := verdictStands
		if p := planOf(steps, object.ObjectRef); p != nil && apierrors.IsInvalid(object) {
			if thought, err = planner.review(ctx, p); err != nil {
				return false, err
			}
		}
		again = again || thought == verdictAgain
		if thought == verdictStands {
			standing = append(standing, object)
		}
	}
	return again, validation.NewPhaseValidationError(found.PhaseName, found.PhaseError, standing...)
}

func planOf(steps []step, ref types.ObjectRef) *plan {
	i := slices.IndexFunc(steps, func(s step) bool { return s.plan != nil && types.ToObjectRef(s.plan.desired) == ref })
	if i < 0 {
		return nil
	}
	return steps[i].plan
}

// review looks into the refusal of an object, and changes the plan where it was
// made without knowing all. While paused, managed fields cannot be migrated, so
// that nothing can be told.
func (e *ObjectEngine) review(ctx context.Context, p *plan) (verdict, error) {
	switch {
	case p.actual == nil && e.unfilteredReader != nil:
		return e.discover(ctx, p)
	case !e.migrates(p):
		return verdictStands, nil
	case p.options.Paused:
		return verdictUnknown, nil
	default:
		return verdictAgain, e.premigrate(ctx, p)
	}
}

// discover looks for the object past the cache.
func (e *ObjectEngine) discover(ctx context.Context, p *plan) (verdict, error) {
	actual, err := e.read(ctx, e.unfilteredReader, p.desired)
	if err != nil || actual == nil {
		return verdictStands, err
	}
	again, err := e.replan(p, actual)
	if err != nil {
		return verdictStands, err
	}
	*p = *again
	return verdictAgain, nil
}

// migrates says whether the plan is to apply to an object of which we hold fields
// by something else than an apply.
func (e *ObjectEngine) migrates(p *plan) bool {
	return p.actual != nil && p.writes() && slices.ContainsFunc(p.actual.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return isOwn(entry, e.fieldOwner) && entry.Operation == metav1.ManagedFieldsOperationUpdate
	})
}

// premigrate migrates the object before the plan is executed. If it is not the one
// any more that was read, the one that is there is migrated, and the execution will
// find out the same.
func (e *ObjectEngine) premigrate(ctx context.Context, p *plan) error {
	migrated, err := e.migrate(ctx, p.actual)
	if err == nil {
		p.actual = migrated
		return nil
	}
	if !apierrors.IsConflict(err) || e.unfilteredReader == nil {
		return err
	}
	live, readErr := e.read(ctx, e.unfilteredReader, p.desired)
	if live == nil {
		return errors.Join(err, readErr)
	}
	_, err = e.migrate(ctx, live)
	return err
}
