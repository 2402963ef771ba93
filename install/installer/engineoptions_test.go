// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"reflect"
	"testing"
	"time"

	"pkg.package-operator.run/boxcutter/machinery/types"
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
