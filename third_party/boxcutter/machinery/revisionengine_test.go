// SPDX-License-Identifier: Apache-2.0

package machinery_test

import (
	"testing"

	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (c *cluster) revisions() *machinery.RevisionEngine {
	phases := machinery.NewPhaseEngine(c.engine(), nil)
	return machinery.NewRevisionEngine(phases, validation.NewRevisionValidator(), c.Client)
}

// ready is a probe for the annotation "ready".
var ready = types.WithProbe(types.ProgressProbeType, types.ProbeFunc(func(obj client.Object) types.ProbeResult {
	if _, found := obj.GetAnnotations()["ready"]; found {
		return types.ProbeResult{Status: types.ProbeStatusTrue}
	}
	return types.ProbeResult{Status: types.ProbeStatusFalse, Messages: []string{"not ready"}}
}))

func reconcileRevision(t *testing.T, c *cluster, rev types.Revision, opts ...types.RevisionReconcileOption) machinery.RevisionResult {
	t.Helper()
	result, err := c.revisions().Reconcile(t.Context(), rev, opts...)
	must(t, err)
	return result
}

func tearDownRevision(t *testing.T, c *cluster, rev types.Revision, opts ...types.RevisionTeardownOption) machinery.RevisionTeardownResult {
	t.Helper()
	result, err := c.revisions().Teardown(t.Context(), rev, opts...)
	must(t, err)
	return result
}

func twoPhases(t *testing.T) []types.Phase {
	t.Helper()
	return []types.Phase{types.NewPhase("first", named(t, "a")), types.NewPhase("second", named(t, "b"))}
}

func TestRevisionReconcile_PhasesWaitForEachOther(t *testing.T) {
	c := newCluster(t)
	rev := types.NewRevisionWithOwner("one", 1, twoPhases(t), owner("one"), owners).WithReconcileOptions(ready)
	result := reconcileRevision(t, c, rev)
	const want = `Revision
Complete: false
In Transition: true
Phases:
- Phase "first"
  Complete: false
  In Transition: false
  Objects:
  - Object ConfigMap.v1 default/a
    Action: "Created"
    Probes:
    - Progress: Failed
      - not ready
- Phase "second" (Pending)
`
	equal(t, "result", want, result.String())
	if c.get(t, named(t, "b")[0]) != nil {
		t.Error("the second phase started before the first was complete")
	}
	c.edit(t, named(t, "a")[0], `{"metadata":{"annotations":{"ready":"yes"}}}`)
	if result := reconcileRevision(t, c, rev); result.IsComplete() || result.InTransition() || len(result.GetPhases()) != 2 {
		t.Errorf("got %s", result)
	}
	c.edit(t, named(t, "b")[0], `{"metadata":{"annotations":{"ready":"yes"}}}`)
	if result := reconcileRevision(t, c, rev); !result.IsComplete() || result.InTransition() || result.HasProgressed() {
		t.Errorf("got %s", result)
	}
}

func TestRevisionTeardown_ReversesPhases(t *testing.T) {
	c := newCluster(t)
	rev := types.NewRevisionWithOwner("one", 1, append(twoPhases(t), types.NewPhase("third", named(t, "c"))), owner("one"), owners)
	reconcileRevision(t, c, rev)
	tearDownRevision(t, c, rev)
	c.edit(t, named(t, "b")[0], `{"metadata":{"finalizers":["example.com/wait"]}}`)
	result := tearDownRevision(t, c, rev)
	const want = `Revision Teardown
Active: second
Waiting Phases:
- first
Gone Phases:
- third
Phases:
- Phase "third"
  Gone Objects:
  - /v1, Kind=ConfigMap default/c
- Phase "second"
  Waiting Objects:
  - /v1, Kind=ConfigMap default/b
`
	equal(t, "result", want, result.String())
	if active, ok := result.GetActivePhaseName(); !ok || active != "second" || result.IsComplete() {
		t.Errorf("got %s", result)
	}
	c.edit(t, named(t, "b")[0], `{"metadata":{"finalizers":null}}`)
	tearDownRevision(t, c, rev)
	result = tearDownRevision(t, c, rev)
	if _, active := result.GetActivePhaseName(); active || !result.IsComplete() || len(result.GetWaitingPhaseNames()) > 0 {
		t.Errorf("got %s", result)
	}
	equal(t, "gone", []string{"first", "second", "third"}, result.GetGonePhaseNames())
}
