// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"pkg.package-operator.run/boxcutter/internal/bounded"
	"pkg.package-operator.run/boxcutter/machinery/types"
)

// PhaseValidator asks the API server about all objects of a phase.
type PhaseValidator struct {
	objects *ObjectValidator
}

// NewClusterPhaseValidator returns a validator for phases whose objects may be
// anywhere in the cluster.
func NewClusterPhaseValidator(
	restMapper restMapper,
	writer client.Writer,
) *PhaseValidator {
	return &PhaseValidator{objects: NewClusterObjectValidator(restMapper, writer)}
}

// NewNamespacedPhaseValidator returns a validator for phases whose objects must
// be in the namespace of their owner, when that has one.
func NewNamespacedPhaseValidator(
	restMapper restMapper,
	writer client.Writer,
) *PhaseValidator {
	return &PhaseValidator{objects: NewNamespacedObjectValidator(restMapper, writer)}
}

// WithFieldOwner returns a validator that asks in the name of the given field
// owner; see ObjectValidator.WithFieldOwner.
func (v *PhaseValidator) WithFieldOwner(fieldOwner string) *PhaseValidator {
	return &PhaseValidator{objects: v.objects.WithFieldOwner(fieldOwner)}
}

// Validate returns nil, a PhaseValidationError with everything found in all
// objects, or the first error that kept it from asking. Options are those given
// and then those of the phase; types.WithConcurrency has it ask about several
// objects at the same time.
func (v *PhaseValidator) Validate(
	ctx context.Context, phase types.Phase, opts ...types.PhaseReconcileOption,
) error {
	var options types.PhaseReconcileOptions
	for _, opt := range opts {
		opt.ApplyToPhaseReconcileOptions(&options)
	}
	for _, opt := range phase.GetReconcileOptions() {
		opt.ApplyToPhaseReconcileOptions(&options)
	}
	var errs []ObjectValidationError
	for _, outcome := range bounded.Do(phase.GetObjects(), options.Concurrency, always, func(obj client.Object) (*ObjectValidationError, error) {
		return findingOf(v.objects.Validate(ctx, obj, options.ForObject(obj)...))
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

// findingOf tells what is wrong with an object from what kept us from asking.
func findingOf(err error) (*ObjectValidationError, error) {
	if finding, ok := errors.AsType[ObjectValidationError](err); ok {
		return &finding, nil
	}
	return nil, err
}

func always(error) bool { return true }
