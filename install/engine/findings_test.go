// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// failing is an engine whose phases fail.
type failing struct {
	phaseEngine
	err error
}

func (f failing) Reconcile(context.Context, int64, types.Phase, ...types.PhaseReconcileOption) (machinery.PhaseResult, error) {
	return nil, f.err
}

func TestFindings_OfAnErrorAreAResult(t *testing.T) {
	object := validation.ObjectValidationError{ObjectRef: types.ObjectRef{ObjectKey: client.ObjectKey{Name: "a"}}, Errors: []error{errors.New("no")}}
	phase := validation.PhaseValidationError{PhaseName: "crds", Objects: []validation.ObjectValidationError{object}}
	for name, err := range map[string]error{"a phase": &phase, "an object": &object, "the value of an object": object} {
		engine := findingsAsResults{failing{err: fmt.Errorf("validating: %w", err)}}
		result, err := engine.Reconcile(t.Context(), 1, types.NewPhase("crds", nil))
		if err != nil || result.IsComplete() || result.GetName() != "crds" {
			t.Errorf("%s: %v, %v", name, result, err)
			continue
		}
		if finding := result.GetValidationError(); finding == nil || len(finding.Objects) != 1 || finding.Objects[0].ObjectRef != object.ObjectRef {
			t.Errorf("%s: the finding is %v", name, finding)
		}
	}
	other := errors.New("unavailable")
	if result, err := (findingsAsResults{failing{err: other}}).Reconcile(t.Context(), 1, types.NewPhase("crds", nil)); result != nil || !errors.Is(err, other) {
		t.Errorf("another error: %v, %v", result, err)
	}
}
