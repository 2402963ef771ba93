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

// scope is how much of a version a pass looks after.
type scope int

const (
	// rollout takes the phases in order, each when the one before is ready.
	rollout scope = iota
	// upkeep takes all phases: they were complete before, and an object of one that
	// stops to work must not leave those of the others alone.
	upkeep
	// held takes the objects that the version still has, and no more.
	held
)

// scopeOf says what there is to be done for a version. The current one is kept
// up. One that another was decided after before it was complete is not brought
// any further, but what it has changed already is looked after until a newer
// version takes it over.
func scopeOf(version v1alpha1.Version, status v1alpha1.ClusterAPIStatus) scope {
	switch version.Name {
	case status.CurrentVersion:
		return upkeep
	case status.DesiredVersion:
		return rollout
	default:
		return held
	}
}

// pass takes the phases of a revision that its scope says.
func (e *Engine) pass(ctx context.Context, rev *revisionObjects, options ...boxcutter.RevisionReconcileOption) (machinery.RevisionResult, error) {
	if rev.scope == rollout {
		return e.Revisions.Reconcile(ctx, e.revision(rev, rev.phases), options...)
	}
	all := separate{}
	var failed []error
	for _, phase := range rev.phases {
		result, err := e.Revisions.Reconcile(ctx, e.revision(rev, []revision.Phase{phase}), options...)
		if result != nil {
			all = append(all, result)
		}
		if err != nil {
			failed = append(failed, err)
		}
		if apierrors.IsTooManyRequests(err) {
			break
		}
	}
	return all, errors.Join(failed...)
}

// hold leaves of a revision's phases the objects that it controls.
func (e *Engine) hold(ctx context.Context, rev *revisionObjects) error {
	var phases []revision.Phase
	for _, phase := range rev.phases {
		kept := revision.Phase{Name: phase.Name}
		for _, object := range phase.Objects {
			controls, err := e.controls(ctx, rev, object)
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
	rev.phases = phases
	return nil
}

func (e *Engine) controls(ctx context.Context, rev *revisionObjects, object *unstructured.Unstructured) (bool, error) {
	actual := &unstructured.Unstructured{}
	actual.SetGroupVersionKind(object.GroupVersionKind())
	err := e.Reader.Get(ctx, client.ObjectKeyFromObject(object), actual)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", describe(object), err)
	}
	return e.Owners.IsController(identity(rev.owner), actual), nil
}

// separate are the results of the phases of one revision that were taken each by itself.
type separate []machinery.RevisionResult

// GetValidationError returns what is wrong with the first phase that cannot be taken.
func (s separate) GetValidationError() *validation.RevisionValidationError {
	for _, result := range s {
		if err := result.GetValidationError(); err != nil {
			return err
		}
	}
	return nil
}

// GetPhases returns the results of all phases.
func (s separate) GetPhases() []machinery.PhaseResult {
	var phases []machinery.PhaseResult
	for _, result := range s {
		phases = append(phases, result.GetPhases()...)
	}
	return phases
}

// InTransition says whether any phase is.
func (s separate) InTransition() bool {
	return slices.ContainsFunc(s, machinery.RevisionResult.InTransition)
}

// IsComplete says whether all phases are.
func (s separate) IsComplete() bool {
	return !slices.ContainsFunc(s, func(r machinery.RevisionResult) bool { return !r.IsComplete() })
}

// HasProgressed says whether all phases have.
func (s separate) HasProgressed() bool {
	return !slices.ContainsFunc(s, func(r machinery.RevisionResult) bool { return !r.HasProgressed() })
}

func (s separate) String() string {
	var texts []string
	for _, result := range s {
		texts = append(texts, result.String())
	}
	return strings.Join(texts, "\n")
}
