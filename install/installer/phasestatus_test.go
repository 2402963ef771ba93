// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/revision"
)

// planned returns a phase of a revision with objects of some names.
func planned(name string, objects ...string) revision.Phase {
	phase := revision.Phase{Name: name}
	for _, object := range objects {
		phase.Objects = append(phase.Objects, settings(object, "red"))
	}
	return phase
}

func TestPhases_States(t *testing.T) {
	p := plan{checks: []*unstructured.Unstructured{settings("x", "red")}, phases: []revision.Phase{
		planned("core-crds", "a", "b"), planned("core", "c", "d"), planned("aws-crds", "e"), planned("aws", "f", "g", "h"),
	}}
	unmet := waiting("x", "Compatible is False")
	unmet.Blocked = true
	found := result(
		phase("preflight", unmet), phase("core-crds", ready("a"), ready("b")), phase("core", ready("c"), waiting("d", "not ready")),
		engine.Phase{Name: "aws-crds", Rejection: &engine.Rejection{Objects: []engine.RejectedObject{{Identity: reference("e").Identity}}}},
	)
	want := []v1alpha1.Phase{
		{Name: "preflight", State: v1alpha1.PhaseBlocked, Objects: 1, WaitingFor: []v1alpha1.Waiting{{Object: "ConfigMap x", Message: "Compatible is False"}}},
		{Name: "core-crds", State: v1alpha1.PhaseComplete, Objects: 2, Ready: 2},
		{Name: "core", State: v1alpha1.PhaseProgressing, Objects: 2, Ready: 1, WaitingFor: []v1alpha1.Waiting{{Object: "ConfigMap d", Message: "not ready"}}},
		{Name: "aws-crds", State: v1alpha1.PhaseBlocked, Objects: 1, WaitingFor: []v1alpha1.Waiting{{Object: "ConfigMap e", Message: "[]"}}},
		{Name: "aws", State: v1alpha1.PhasePending, Objects: 3},
	}
	if diff := cmp.Diff(want, attempt{plan: p, applied: true, result: found}.phases()); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if got := (attempt{plan: p}).phases(); got != nil {
		t.Errorf("without a result, phases are %v, want none", got)
	}
}

func TestRemovedPhases_States(t *testing.T) {
	planned := []revision.Phase{planned("core-crds", "a", "b"), planned("core", "c", "d"), planned("aws", "e")}
	removed := engine.Removal{Phases: []engine.RemovedPhase{{Name: "aws", Complete: true}, {Name: "core", Waiting: []engine.Reference{reference("d")}}}}
	want := []v1alpha1.Phase{
		{Name: "core-crds", State: v1alpha1.PhasePending, Objects: 2},
		{Name: "core", State: v1alpha1.PhaseRemoving, Objects: 1, WaitingFor: []v1alpha1.Waiting{{Object: "ConfigMap d", Message: "being removed"}}},
	}
	got := removedPhases(planned, removed)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	installed := map[string][]v1alpha1.Phase{"4.22.0-2": {{Name: "core"}}}
	all := mergePhases(installed, map[string][]v1alpha1.Phase{"4.22.0-1": got})
	if len(all) != 2 || len(all["4.22.0-1"]) != 2 || len(mergePhases(nil, all)) != 2 {
		t.Errorf("merged phases are %v, want those of both versions", all)
	}
}

// The changes of a pending version are in the order of the phases.
func TestPendingChanges(t *testing.T) {
	from := []revision.Phase{planned("core", "same", "changed", "dropped")}
	to := []revision.Phase{planned("core", "added", "same"), {Name: "aws", Objects: []*unstructured.Unstructured{settings("changed", "blue")}}}
	for want, phases := range map[string][2][]revision.Phase{
		"version 2 is pending and would change 1: ConfigMap changed; create 1: ConfigMap added; remove 1: ConfigMap dropped": {from, to},
		"version 2 is pending and would create 3: ConfigMap same, ConfigMap changed, ConfigMap dropped":                      {nil, from},
		"version 2 is pending and would change no object":                                                                    {from, from},
	} {
		if got := pendingChanges("2", phases[0], phases[1]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
