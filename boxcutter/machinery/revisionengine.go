// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"context"
	"fmt"
	"slices"

	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// phaseEngine handles single phases.
type phaseEngine interface {
	Reconcile(
		ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseReconcileOption,
	) (PhaseResult, error)
	Teardown(
		ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseTeardownOption,
	) (PhaseTeardownResult, error)
}

// revisionValidator finds out what can be known to be wrong without a cluster.
type revisionValidator interface {
	Validate(ctx context.Context, rev types.Revision) error
}

// RevisionEngine reconciles and tears down revisions.
type RevisionEngine struct {
	phaseEngine       phaseEngine
	revisionValidator revisionValidator
}

// NewRevisionEngine makes an engine that has its phases handled by phaseEngine
// and its revisions checked by revisionValidator, unless that is nil. It does not
// write by itself, so that client is not used.
func NewRevisionEngine(
	phaseEngine phaseEngine,
	revisionValidator revisionValidator,
	client client.Writer,
) *RevisionEngine {
	return &RevisionEngine{phaseEngine: phaseEngine, revisionValidator: revisionValidator}
}

// Reconcile takes one step with each phase of the revision, in order, up to the
// first that is not complete. Options are those given and then those of the
// revision.
//
// What the validator finds is part of the result, and nothing is written then.
// The result is there also with an error, as far as it goes.
func (re *RevisionEngine) Reconcile(
	ctx context.Context, rev types.Revision,
	opts ...types.RevisionReconcileOption,
) (RevisionResult, error) {
	var options types.RevisionReconcileOptions
	for _, opt := range slices.Concat(opts, rev.GetReconcileOptions()) {
		opt.ApplyToRevisionReconcileOptions(&options)
	}
	result := &revisionResult{phases: phaseNames(rev.GetPhases())}
	if err := re.validate(ctx, rev); err != nil {
		if result.validationError = asPointer[validation.RevisionValidationError](err); result.validationError != nil {
			return result, nil //nolint:nilerr // a validation error is a result
		}
		return result, fmt.Errorf("validating revision %s: %w", rev.GetName(), err)
	}
	for _, phase := range rev.GetPhases() {
		reached, err := re.phaseEngine.Reconcile(ctx, rev.GetRevisionNumber(), phase, options.ForPhase(phase.GetName())...)
		if reached != nil {
			result.reached = append(result.reached, reached)
		}
		if err != nil {
			return result, fmt.Errorf("reconciling phase %s: %w", phase.GetName(), err)
		}
		if !reached.IsComplete() {
			break
		}
	}
	return result, nil
}

func (re *RevisionEngine) validate(ctx context.Context, rev types.Revision) error {
	if re.revisionValidator == nil {
		return nil
	}
	return re.revisionValidator.Validate(ctx, rev)
}

// Teardown takes one step to remove the last phase that is still there; when that
// is gone it goes on with the one before. Options are those given and then those
// of the revision. The result is there also with an error, as far as it goes.
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
		if reached != nil {
			result.phases = append(result.phases, reached)
		}
		if err == nil && reached.IsComplete() {
			result.gone = append(result.gone, phase.GetName())
			continue
		}
		result.active, result.waiting = phase.GetName(), phaseNames(phases[:i])
		if err != nil {
			return result, fmt.Errorf("tearing down phase %s: %w", phase.GetName(), err)
		}
		break
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
