// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"testing"

	"pkg.package-operator.run/boxcutter/machinery/types"
)

func TestObjectsAreWrittenAndRemovedAtTheSameTime(t *testing.T) {
	reconcile, teardown := &types.RevisionReconcileOptions{}, &types.RevisionTeardownOptions{}
	atOnce.ApplyToRevisionReconcileOptions(reconcile)
	atOnce.ApplyToRevisionTeardownOptions(teardown)
	phase, removal := &types.PhaseReconcileOptions{}, &types.PhaseTeardownOptions{}
	for _, option := range reconcile.ForPhase("any") {
		option.ApplyToPhaseReconcileOptions(phase)
	}
	for _, option := range teardown.ForPhase("any") {
		option.ApplyToPhaseTeardownOptions(removal)
	}
	if phase.Concurrency != int(atOnce) || removal.Concurrency != int(atOnce) {
		t.Errorf("%d are written and %d removed at the same time, want %d", phase.Concurrency, removal.Concurrency, atOnce)
	}
}
