// SPDX-License-Identifier: Apache-2.0

package machinery_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
)

// remote is a phase engine of a program: it passes the phase "remote" to another engine, such as another
// cluster's, and all others to the local engine.
type remote struct {
	*machinery.PhaseEngine

	other *machinery.PhaseEngine
}

func (r remote) engine(phase types.Phase) *machinery.PhaseEngine {
	if phase.GetName() == "remote" {
		return r.other
	}
	return r.PhaseEngine
}

func (r remote) Reconcile(
	ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseReconcileOption,
) (machinery.PhaseResult, error) {
	return r.engine(phase).Reconcile(ctx, revision, phase, opts...)
}

func (r remote) Teardown(
	ctx context.Context, revision int64, phase types.Phase, opts ...types.PhaseTeardownOption,
) (machinery.PhaseTeardownResult, error) {
	return r.engine(phase).Teardown(ctx, revision, phase, opts...)
}

func TestRevisionEngine_PhaseEngineAsPlugin(t *testing.T) {
	here, there := newCluster(t), newCluster(t)
	phases := remote{machinery.NewPhaseEngine(here.engine(), nil), machinery.NewPhaseEngine(there.engine(), nil)}
	engine := machinery.NewRevisionEngine(phases, nil, nil)
	rev := types.NewRevision("one", 1, []types.Phase{types.NewPhase("local", named(t, "a")), types.NewPhase("remote", named(t, "b"))})
	result, err := engine.Reconcile(t.Context(), rev)
	if err != nil || !result.IsComplete() {
		t.Fatalf("got %v, %v", result, err)
	}
	if here.get(t, named(t, "a")[0]) == nil || here.get(t, named(t, "b")[0]) != nil || there.get(t, named(t, "b")[0]) == nil {
		t.Error("a phase is in the wrong cluster")
	}
	for range 4 {
		if _, err := engine.Teardown(t.Context(), rev); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := engine.Teardown(t.Context(), rev)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"local", "remote"}, gone.GetGonePhaseNames()); diff != "" {
		t.Error(diff)
	}
}
