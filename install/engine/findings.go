// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
)

// phaseEngine is the engine of a phase.
type phaseEngine interface {
	Reconcile(ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseReconcileOption) (machinery.PhaseResult, error)
	Teardown(ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseTeardownOption) (machinery.PhaseTeardownResult, error)
}

// findingsAsResults returns the findings of the dry runs of a phase as its result. boxcutter v0.14.0 returns them as an error.
type findingsAsResults struct{ phaseEngine }

// Reconcile reconciles the phase.
func (e findingsAsResults) Reconcile(ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseReconcileOption) (machinery.PhaseResult, error) {
	result, err := e.phaseEngine.Reconcile(ctx, revision, phase, opts...)
	if finding := findingIn(err, phase.GetName()); finding != nil {
		return findingResult{finding}, nil
	}
	return result, err
}

// findingIn returns the finding about a phase or one of its objects that an error has, or nil.
func findingIn(err error, phase string) *validation.PhaseValidationError {
	if finding, ok := errors.AsType[*validation.PhaseValidationError](err); ok {
		return finding
	}
	var object validation.ObjectValidationError
	if pointer, ok := errors.AsType[*validation.ObjectValidationError](err); ok {
		object = *pointer
	} else if !errors.As(err, &object) {
		return nil
	}
	return &validation.PhaseValidationError{PhaseName: phase, Objects: []validation.ObjectValidationError{object}}
}

// findingResult is the result of a phase of which no object was written.
type findingResult struct {
	finding *validation.PhaseValidationError
}

func (r findingResult) GetName() string                                      { return r.finding.PhaseName }
func (r findingResult) GetValidationError() *validation.PhaseValidationError { return r.finding }
func (r findingResult) GetObjects() []machinery.ObjectResult                 { return nil }
func (r findingResult) InTransition() bool                                   { return false }
func (r findingResult) IsComplete() bool                                     { return false }
func (r findingResult) HasProgressed() bool                                  { return false }
func (r findingResult) String() string                                       { return r.finding.String() }
