// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"
	"errors"
	"slices"

	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
)

// A dry run ensures that no object of a phase is changed before the API server accepts
// all objects. With the option WithoutDryRunOfUnchanged, two writes need none:
//
// The first write of a phase is its own check: it follows the dry runs of all other
// objects, and if it is rejected, nothing has been written.
//
// A write that only replaces the marks of another revision does not change the object.
// If it is rejected, the object still belongs to the other revision.
//
// If such a write fails, the dry run is made afterwards, so that a rejection is reported
// as a validation error in any case.

// phaseRun is one reconcile of a phase.
type phaseRun struct {
	engine   *PhaseEngine
	revision int64
	phase    types.Phase
	steps    []step
	opts     []types.PhaseReconcileOption
	options  types.PhaseReconcileOptions
}

// reconcile validates the phase, and then reconciles its objects. A rejection is part of
// the result and not an error.
func (r phaseRun) reconcile(ctx context.Context, result *phaseResult) error {
	first := r.omitDryRuns()
	if rejected, err := r.validate(ctx, result); rejected || err != nil {
		return err
	}
	iteration := iteration{r.options.Concurrency, r.options.AggregateErrors}
	var errs []error
	for _, steps := range [][]step{r.steps[:first], r.steps[first:]} {
		err := r.engine.reconcileObjects(ctx, r.revision, steps, iteration, result)
		if err == nil {
			continue
		}
		if rejected, _ := r.check(ctx, result, (*plan).failedUnchecked); rejected {
			return nil
		}
		errs = append(errs, err)
		if iteration.stops(err) {
			break
		}
	}
	return join(errs)
}

// omitDryRuns marks the writes that need no dry run, and returns the number of steps up to
// the first write.
func (r phaseRun) omitDryRuns() (first int) {
	if !r.options.NoDryRunOfUnchanged {
		return 0
	}
	for _, step := range r.steps {
		if step.plan != nil {
			step.plan.unchecked = step.plan.unchanged && !step.plan.options.Paused
		}
	}
	i := slices.IndexFunc(r.steps, func(s step) bool { return s.plan == nil || s.plan.writes() })
	if i < 0 || r.steps[i].plan == nil || r.steps[i].plan.options.Paused {
		return 0
	}
	r.steps[i].plan.unchecked = true
	return i + 1
}

// validate validates the phase before the first write. If the API server rejects an
// object, it also makes the dry runs that were omitted, so that the result has all
// findings.
func (r phaseRun) validate(ctx context.Context, result *phaseResult) (rejected bool, err error) {
	if !r.options.NoDryRunOfUnchanged {
		return r.check(ctx, result, func(*plan) bool { return true })
	}
	rejected, err = r.check(ctx, result, func(p *plan) bool { return p.writes() && !p.unchecked })
	if !rejected || !slices.ContainsFunc(r.steps, func(s step) bool { return s.plan != nil && s.plan.unchecked }) {
		return rejected, err
	}
	some := result.validationError
	if again, _ := r.check(ctx, result, (*plan).writes); !again {
		result.validationError = some
	}
	return true, nil
}

// check calls the validator with dry runs of the selected objects, and adds its findings to
// the result.
func (r phaseRun) check(ctx context.Context, result *phaseResult, selected func(*plan) bool) (rejected bool, err error) {
	err = r.engine.validate(ctx, r.phase, r.steps, selected, r.opts)
	result.validationError, _ = errors.AsType[*validation.PhaseValidationError](err)
	if result.validationError != nil {
		return true, nil //nolint:nilerr // a validation error is a result
	}
	return false, err
}
