// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

// scope is the part of a version that a reconcile covers.
type scope int

const (
	// rollout applies the phases in order, each when the previous one is ready.
	rollout scope = iota
	// maintenance applies all phases. They were complete before, and an object that
	// becomes unready must not block later phases.
	maintenance
	// controlledOnly applies the objects that the version still controls, and no others.
	controlledOnly
)

// scopeOf returns the scope for a version. The current version is maintained. A
// version that was superseded before it was complete is not rolled out further,
// but the objects that it controls are reconciled until a newer version adopts them.
func scopeOf(version v1alpha1.Version, status v1alpha1.ClusterAPIStatus) scope {
	switch version.Name {
	case status.CurrentVersion:
		return maintenance
	case status.DesiredVersion:
		return rollout
	default:
		return controlledOnly
	}
}

// reconcileScope reconciles the phases that the scope of the revision covers.
func (e *Engine) reconcileScope(ctx context.Context, rev *loadedRevision, options ...boxcutter.RevisionReconcileOption) (machinery.RevisionResult, error) {
	checked, err := e.check(ctx, rev)
	all, failed := phaseResults{checked}, []error{err}
	if rev.scope == rollout && !checked.IsComplete() {
		return all, err
	}
	for _, phases := range e.parts(ctx, rev) {
		result, err := e.reconcilePart(ctx, rev, phases, options)
		if result != nil {
			all = append(all, result)
		}
		if err != nil {
			failed = append(failed, err)
		}
		if apierrors.IsTooManyRequests(err) || rev.scope == rollout && (err != nil || !result.IsComplete()) {
			break
		}
	}
	return all, errors.Join(failed...)
}

// parts returns the phases that are reconciled together: each phase alone, so that only its CRDs are unpacked. An invalid
// revision is one part, which the engine rejects before it writes an object.
func (e *Engine) parts(ctx context.Context, rev *loadedRevision) [][]revision.Phase {
	first := rev.scope == rollout && e.comparedOf(rev).phases == nil
	if first && validation.NewRevisionValidator().Validate(ctx, e.packedRevision(rev, rev.phases)) != nil {
		return [][]revision.Phase{rev.phases}
	}
	return slices.Collect(slices.Chunk(rev.phases, 1))
}

// reconcilePart reconciles phases, unless it is one phase that has not changed.
func (e *Engine) reconcilePart(ctx context.Context, rev *loadedRevision, phases []revision.Phase, options []boxcutter.RevisionReconcileOption) (machinery.RevisionResult, error) {
	if len(phases) == 1 {
		if result := e.unchanged(ctx, rev, phases[0]); result != nil {
			return result, nil
		}
	}
	whole, err := e.revision(rev, phases)
	if err != nil {
		return nil, err
	}
	asOf := e.changes.now()
	result, err := e.Revisions.Reconcile(ctx, whole, options...)
	if result != nil && rev.scope != controlledOnly {
		e.record(rev, result, asOf)
	}
	return compact(result), err
}

// keepControlled removes the objects that the revision does not control from its
// phases.
func (e *Engine) keepControlled(ctx context.Context, rev *loadedRevision, reader client.Reader) error {
	var phases []revision.Phase
	for _, phase := range rev.phases {
		kept := revision.Phase{Name: phase.Name}
		for _, object := range phase.Objects {
			controls, err := e.controls(ctx, rev, object, reader)
			if err != nil {
				return err
			}
			if controls {
				kept.Objects = append(kept.Objects, object)
			}
		}
		if kept.Objects != nil {
			phases = append(phases, kept)
		}
	}
	rev.contents, rev.checks = contentsOf(phases, rev.unmanaged), nil
	return nil
}

func (e *Engine) controls(ctx context.Context, rev *loadedRevision, object *unstructured.Unstructured, reader client.Reader) (bool, error) {
	actual := &unstructured.Unstructured{}
	actual.SetGroupVersionKind(object.GroupVersionKind())
	err := reader.Get(ctx, client.ObjectKeyFromObject(object), actual)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", describe(object), err)
	}
	return e.Owners.IsController(ownerOf(rev.owner), actual), nil
}

// phaseResults are the results of phases of one revision that were reconciled separately.
type phaseResults []machinery.RevisionResult

// GetValidationError returns the first validation error.
func (r phaseResults) GetValidationError() *validation.RevisionValidationError {
	for _, result := range r {
		if err := result.GetValidationError(); err != nil {
			return err
		}
	}
	return nil
}

// GetPhases returns the results of all phases.
func (r phaseResults) GetPhases() []machinery.PhaseResult {
	var phases []machinery.PhaseResult
	for _, result := range r {
		phases = append(phases, result.GetPhases()...)
	}
	return phases
}

// InTransition reports whether any phase is in transition.
func (r phaseResults) InTransition() bool {
	return slices.ContainsFunc(r, machinery.RevisionResult.InTransition)
}

// IsComplete reports whether all phases are complete.
func (r phaseResults) IsComplete() bool {
	return !slices.ContainsFunc(r, func(r machinery.RevisionResult) bool { return !r.IsComplete() })
}

// HasProgressed reports whether all phases have progressed.
func (r phaseResults) HasProgressed() bool {
	return !slices.ContainsFunc(r, func(r machinery.RevisionResult) bool { return !r.HasProgressed() })
}

// ProgressDeadlineExceeded reports whether any phase exceeds its deadline.
func (r phaseResults) ProgressDeadlineExceeded() bool {
	return slices.ContainsFunc(r, deadlineExceeded)
}

func (r phaseResults) String() string {
	var texts []string
	for _, result := range r {
		texts = append(texts, result.String())
	}
	return strings.Join(texts, "\n")
}
