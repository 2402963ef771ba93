// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestEngineOptions_AreUnderstoodByTheEngine(t *testing.T) {
	reconcile, teardown := &types.RevisionReconcileOptions{}, &types.RevisionTeardownOptions{}
	engineOptions.ApplyToRevisionReconcileOptions(reconcile)
	deadline := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	progressDeadline(deadline).ApplyToRevisionReconcileOptions(reconcile)
	engineOptions.ApplyToRevisionTeardownOptions(teardown)
	unchangedSince(func(client.Object, int64) bool { return true }).ApplyToRevisionReconcileOptions(reconcile)
	phase, removal := &types.PhaseReconcileOptions{}, &types.PhaseTeardownOptions{}
	for _, option := range reconcile.ForPhase("any") {
		option.ApplyToPhaseReconcileOptions(phase)
	}
	for _, option := range teardown.ForPhase("any") {
		option.ApplyToPhaseTeardownOptions(removal)
	}
	object := &types.ObjectReconcileOptions{}
	for _, option := range phase.DefaultObjectOptions {
		option.ApplyToObjectReconcileOptions(object)
	}
	understood := reflect.ValueOf(object).MethodByName("SetUnchangedSince").IsValid()
	if field := reflect.ValueOf(object).Elem().FieldByName("UnchangedSince"); understood && field.IsNil() {
		t.Error("UnchangedSince is not set")
	}
	tests := []struct {
		options any
		field   string
		want    any
	}{
		{phase, "Concurrency", int(engineOptions)},
		{phase, "NoDryRunOfUnchanged", true},
		{removal, "Concurrency", int(engineOptions)},
		{reconcile, "ProgressDeadline", deadline},
	}
	ignored := 0
	for _, test := range tests {
		options := reflect.ValueOf(test.options)
		if !options.MethodByName("Set" + test.field).IsValid() {
			ignored++
		} else if field := options.Elem().FieldByName(test.field); field.Interface() != test.want {
			t.Errorf("%s of %T is %v, want %v", test.field, test.options, field, test.want)
		}
	}
	if ignored != 0 && ignored != len(tests) { // the original has none of the options
		t.Errorf("%d of %d options are ignored, want all or none", ignored, len(tests))
	}
}

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
