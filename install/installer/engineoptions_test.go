// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"reflect"
	"testing"

	"pkg.package-operator.run/boxcutter/machinery/types"
)

func TestTheEngineTakesTheEconomy(t *testing.T) {
	reconcile, teardown := &types.RevisionReconcileOptions{}, &types.RevisionTeardownOptions{}
	thrifty.ApplyToRevisionReconcileOptions(reconcile)
	thrifty.ApplyToRevisionTeardownOptions(teardown)
	phase, removal := &types.PhaseReconcileOptions{}, &types.PhaseTeardownOptions{}
	for _, option := range reconcile.ForPhase("any") {
		option.ApplyToPhaseReconcileOptions(phase)
	}
	for _, option := range teardown.ForPhase("any") {
		option.ApplyToPhaseTeardownOptions(removal)
	}
	for _, test := range []struct {
		options any
		field   string
		want    any
	}{
		{phase, "Concurrency", int(thrifty)},
		{phase, "NoDryRunOfUnchanged", true},
		{removal, "Concurrency", int(thrifty)},
	} {
		field := reflect.ValueOf(test.options).Elem().FieldByName(test.field)
		if !field.IsValid() {
			t.Logf("%T has no %s, and cannot be economical", test.options, test.field)
		} else if field.Interface() != test.want {
			t.Errorf("%s of %T is %v, want %v", test.field, test.options, field, test.want)
		}
	}
}
