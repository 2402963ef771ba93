// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// phaseEngine reconciles and tears down single phases.
type phaseEngine interface {
	Reconcile(
		ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseReconcileOption,
	) (PhaseResult, error)
	Teardown(
		ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseTeardownOption,
	) (PhaseTeardownResult, error)
}

// revisionValidator checks a revision without the API server.
type revisionValidator interface {
	Validate(ctx context.Context, rev types.Revision) error
}

// RevisionEngine reconciles and tears down revisions.
type RevisionEngine struct {
	phaseEngine       phaseEngine
	revisionValidator revisionValidator
}

// NewRevisionEngine returns an engine that calls phaseEngine for each phase and,
// unless it is nil, revisionValidator for each revision. client is not used, because
// only phaseEngine writes. A custom phaseEngine may write to another cluster.
func NewRevisionEngine(
	phaseEngine phaseEngine,
	revisionValidator revisionValidator,
	client client.Writer,
) *RevisionEngine {
	return &RevisionEngine{phaseEngine: phaseEngine, revisionValidator: revisionValidator}
}

// Reconcile takes one step for each phase of the revision, in order, up to the
// first phase that is not complete. The given options apply before the options of
// the revision.
//
// If the validator has findings, they are part of the result and nothing is
// written. With an error, the result has the phases before the failed one.
func (re *RevisionEngine) Reconcile(
	ctx context.Context, rev types.Revision,
	opts ...types.RevisionReconcileOption,
) (RevisionResult, error) {
	var options types.RevisionReconcileOptions
	for _, opt := range slices.Concat(opts, rev.GetReconcileOptions()) {
		opt.ApplyToRevisionReconcileOptions(&options)
	}
	result := &revisionResult{phases: phaseNames(rev.GetPhases()), late: isPast(options.ProgressDeadline)}
	if err := re.validate(ctx, rev); err != nil {
		if finding, ok := errors.AsType[*validation.RevisionValidationError](err); ok {
			result.validationError = finding
			return result, nil // a validation error is a result
		}
		return result, fmt.Errorf("validating revision %s: %w", rev.GetName(), err)
	}
	for _, phase := range rev.GetPhases() {
		reached, err := re.phaseEngine.Reconcile(ctx, rev.GetRevisionNumber(), phase, options.ForPhase(phase.GetName())...)
		if err != nil {
			return result, fmt.Errorf("reconciling phase %s: %w", phase.GetName(), err)
		}
		result.reached = append(result.reached, reached)
		if !reached.IsComplete() {
			break
		}
	}
	return result, nil
}

// isPast reports whether a deadline has passed. The zero time is no deadline.
func isPast(deadline time.Time) bool { return !deadline.IsZero() && time.Now().After(deadline) }

func (re *RevisionEngine) validate(ctx context.Context, rev types.Revision) error {
	if re.revisionValidator == nil {
		return nil
	}
	return re.revisionValidator.Validate(ctx, rev)
}

// Teardown takes one step to remove the last phase that still exists. When that
// phase is gone, it continues with the previous one. The given options apply before
// the options of the revision. With an error, the result is nil.
func (re *RevisionEngine) Teardown(
	ctx context.Context, rev types.Revision,
	opts ...types.RevisionTeardownOption,
) (RevisionTeardownResult, error) {
	var options types.RevisionTeardownOptions
	for _, opt := range slices.Concat(opts, rev.GetTeardownOptions()) {
		opt.ApplyToRevisionTeardownOptions(&options)
	}
	phases := rev.GetPhases()
	result := &revisionTeardownResult{}
	for i, phase := range slices.Backward(phases) {
		reached, err := re.phaseEngine.Teardown(ctx, rev.GetRevisionNumber(), phase, options.ForPhase(phase.GetName())...)
		if err != nil {
			return nil, fmt.Errorf("tearing down phase %s: %w", phase.GetName(), err)
		}
		result.phases = append(result.phases, reached)
		if !reached.IsComplete() {
			result.active, result.waiting = phase.GetName(), phaseNames(phases[:i])
			break
		}
		result.gone = slices.Insert(result.gone, 0, phase.GetName())
	}
	return result, nil
}

func phaseNames(phases []types.Phase) []string {
	names := make([]string, len(phases))
	for i, phase := range phases {
		names[i] = phase.GetName()
	}
	return names
}
