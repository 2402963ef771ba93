// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"errors"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"pkg.package-operator.run/boxcutter/internal/bounded"
	"pkg.package-operator.run/boxcutter/machinery/types"
)

// PhaseValidator checks the name of a phase and all its objects.
type PhaseValidator struct {
	*ObjectValidator
}

// NewClusterPhaseValidator returns a validator for phases with cluster-scoped
// objects and objects in any namespace.
func NewClusterPhaseValidator(
	restMapper restMapper,
	writer client.Writer,
) *PhaseValidator {
	return &PhaseValidator{NewClusterObjectValidator(restMapper, writer)}
}

// NewNamespacedPhaseValidator returns a validator for phases whose objects must be
// in the namespace of their owner, if it has one.
func NewNamespacedPhaseValidator(
	restMapper restMapper,
	writer client.Writer,
) *PhaseValidator {
	return &PhaseValidator{NewNamespacedObjectValidator(restMapper, writer)}
}

// Validate returns nil, a *PhaseValidationError with all findings, or the first
// retryable error of a dry run. The given options apply before the options of the
// phase.
func (v *PhaseValidator) Validate(
	ctx context.Context, phase types.Phase, opts ...types.PhaseReconcileOption,
) error {
	var options types.PhaseReconcileOptions
	for _, opt := range slices.Concat(opts, phase.GetReconcileOptions()) {
		opt.ApplyToPhaseReconcileOptions(&options)
	}
	if err := validateDuplicates(phase); err != nil {
		return err
	}
	var errs []ObjectValidationError
	for _, outcome := range bounded.Do(phase.GetObjects(), options.Concurrency, always, func(obj client.Object) (*ObjectValidationError, error) {
		return findingOf(v.ObjectValidator.Validate(ctx, obj, options.ForObject(obj)...))
	}) {
		if outcome.Err != nil {
			return outcome.Err
		}
		if outcome.Result != nil {
			errs = append(errs, *outcome.Result)
		}
	}
	return NewPhaseValidationError(phase.GetName(), validatePhaseName(phase.GetName()), errs...)
}

// validateDuplicates returns the findings about a phase with duplicate objects,
// without a dry run of any object.
func validateDuplicates(phase types.Phase) error {
	holders := phasesByObject([]types.Phase{phase})
	var errs []ObjectValidationError
	for ref, names := range holders {
		if err := duplication(names); err != nil {
			errs = append(errs, ObjectValidationError{ObjectRef: ref, Errors: []error{err}})
		}
	}
	if len(errs) == 0 {
		return nil
	}
	slices.SortFunc(errs, func(a, b ObjectValidationError) int {
		return strings.Compare(a.ObjectRef.String(), b.ObjectRef.String())
	})
	return NewPhaseValidationError(phase.GetName(), validatePhaseName(phase.GetName()), errs...)
}

// findingOf separates findings about an object from other errors.
func findingOf(err error) (*ObjectValidationError, error) {
	if finding, ok := errors.AsType[*ObjectValidationError](err); ok {
		return finding, nil
	}
	return nil, err
}

func always(error) bool { return true }
