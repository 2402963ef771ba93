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

// Two kinds of "invalid" responses to a dry run can be false positives and are
// reviewed:
//
// An object that is going to be created may already exist with another owner, but
// not be in a filtered cache. The dry run merges both objects, and the result may
// have two controllers. The object is read live and planned again.
//
// An object that was created and never applied keeps the fields that the new
// revision drops, because an apply removes only applied fields. For example, a
// Deployment that changes from RollingUpdate with parameters to Recreate is then
// invalid. The managed fields are migrated; this changes no other field.

// reviewResult is the result of a review.
type reviewResult int

const (
	reviewConfirmed reviewResult = iota // the finding is correct
	reviewRetry                         // the cause was corrected: validate again
	reviewUnknown                       // the cause cannot be corrected now
)

// reviewFindings reviews the findings of the validator. It returns true if the
// validator must be called again, else the confirmed findings.
func (e *PhaseEngine) reviewFindings(ctx context.Context, steps []step, finding error) (again bool, err error) {
	found, ok := errors.AsType[*validation.PhaseValidationError](finding)
	if !ok || e.planner == nil {
		return false, finding
	}
	var confirmed []validation.ObjectValidationError
	for _, object := range found.Objects {
		result := reviewConfirmed
		if p := planOf(steps, object.ObjectRef); p != nil && apierrors.IsInvalid(object) {
			if result, err = e.planner.review(ctx, p); err != nil {
				return false, err
			}
		}
		again = again || result == reviewRetry
		if result == reviewConfirmed {
			confirmed = append(confirmed, object)
		}
	}
	return again, validation.NewPhaseValidationError(found.PhaseName, found.PhaseError, confirmed...)
}

func planOf(steps []step, ref types.ObjectRef) *plan {
	i := slices.IndexFunc(steps, func(s step) bool { return s.plan != nil && types.ToObjectRef(s.plan.desired) == ref })
	if i < 0 {
		return nil
	}
	return steps[i].plan
}

// review checks the finding about an object, and corrects the plan if it was based
// on an incomplete cache. While paused, managed fields cannot be migrated, so the
// finding is neither confirmed nor refuted.
func (e *ObjectEngine) review(ctx context.Context, p *plan) (reviewResult, error) {
	switch {
	case p.actual == nil && e.unfilteredReader != nil:
		return e.findUncached(ctx, p)
	case !e.migrates(p):
		return reviewConfirmed, nil
	case p.options.Paused:
		return reviewUnknown, nil
	default:
		return reviewRetry, e.migrateBeforeApply(ctx, p)
	}
}

// findUncached reads the object without the cache.
func (e *ObjectEngine) findUncached(ctx context.Context, p *plan) (reviewResult, error) {
	actual, err := e.read(ctx, e.unfilteredReader, p.desired)
	if err != nil || actual == nil {
		return reviewConfirmed, err
	}
	again, err := e.replan(p, actual)
	if err != nil {
		return reviewConfirmed, err
	}
	*p = *again
	return reviewRetry, nil
}

// migrates reports whether the execution of the plan migrates the managed fields.
func (e *ObjectEngine) migrates(p *plan) bool {
	return p.actual != nil && p.writes() && e.needsMigration(p) && slices.ContainsFunc(p.actual.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return isOwn(entry, e.fieldOwner) && entry.Operation == metav1.ManagedFieldsOperationUpdate
	})
}

// migrateBeforeApply migrates the object before the plan is executed. If the object
// has changed since it was read, the live object is migrated, and the execution of
// the plan detects the change.
func (e *ObjectEngine) migrateBeforeApply(ctx context.Context, p *plan) error {
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
