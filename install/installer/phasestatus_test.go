// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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

func TestPhasesOf_States(t *testing.T) {
	rev := &loadedRevision{checks: []revision.Phase{planned("preflight", "x")}, contents: contents{phases: []revision.Phase{
		planned("core-crds", "a", "b"), planned("core", "c", "d"), planned("aws-crds", "e"), planned("aws", "f", "g", "h"),
	}}}
	ref := types.ObjectRef{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, ObjectKey: client.ObjectKey{Name: "e"}}
	result := revisionOutcome{phases: []machinery.PhaseResult{
		phaseOutcome{name: "preflight", objects: []machinery.ObjectResult{requirement()}},
		phaseOutcome{name: "core-crds", objects: []machinery.ObjectResult{ready("a"), ready("b")}},
		phaseOutcome{name: "core", objects: []machinery.ObjectResult{ready("c"), waiting("d", "not ready")}},
		phaseOutcome{name: "aws-crds", invalid: &validation.PhaseValidationError{Objects: []validation.ObjectValidationError{{ObjectRef: ref}}}},
	}}
	want := []v1alpha1.Phase{
		{Name: "preflight", State: v1alpha1.PhaseBlocked, Objects: 1, WaitingFor: []v1alpha1.Waiting{{Object: "CompatibilityRequirement machines.x.io-2", Message: `no such probe "Progress"`}}},
		{Name: "core-crds", State: v1alpha1.PhaseComplete, Objects: 2, Ready: 2},
		{Name: "core", State: v1alpha1.PhaseProgressing, Objects: 2, Ready: 1, WaitingFor: []v1alpha1.Waiting{{Object: "ConfigMap d", Message: "not ready"}}},
		{Name: "aws-crds", State: v1alpha1.PhaseBlocked, Objects: 1, WaitingFor: []v1alpha1.Waiting{{Object: "ConfigMap e", Message: "[]"}}},
		{Name: "aws", State: v1alpha1.PhasePending, Objects: 3},
	}
	if diff := cmp.Diff(want, phasesOf(rev, result)); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	blocked := phasesOf(&loadedRevision{contents: contents{phases: []revision.Phase{planned("core", "a")}}}, onePhase(collision("a", nil)))
	if blocked[0].State != v1alpha1.PhaseBlocked || blocked[0].Ready != 0 {
		t.Errorf("a phase with a collision is %+v, want Blocked", blocked[0])
	}
	if got := phasesOf(rev, nil); got != nil {
		t.Errorf("without a result, phases are %v, want none", got)
	}
}

// removal is the result of the teardown of a revision.
type removal struct {
	machinery.RevisionTeardownResult
	phases []machinery.PhaseTeardownResult
}

func (r removal) GetPhases() []machinery.PhaseTeardownResult { return r.phases }

// phaseRemoval is the result of the teardown of a phase that waits for objects.
type phaseRemoval struct {
	machinery.PhaseTeardownResult
	name    string
	waiting []types.ObjectRef
}

func (p phaseRemoval) GetName() string            { return p.name }
func (p phaseRemoval) IsComplete() bool           { return len(p.waiting) == 0 }
func (p phaseRemoval) Waiting() []types.ObjectRef { return p.waiting }

func TestRemovedPhasesOf_States(t *testing.T) {
	rev := &loadedRevision{contents: contents{phases: []revision.Phase{planned("core-crds", "a", "b"), planned("core", "c", "d"), planned("aws", "e")}}}
	result := removal{phases: []machinery.PhaseTeardownResult{
		phaseRemoval{name: "aws"}, phaseRemoval{name: "core", waiting: []types.ObjectRef{types.ToObjectRef(settings("d", ""))}},
	}}
	want := []v1alpha1.Phase{
		{Name: "core-crds", State: v1alpha1.PhasePending, Objects: 2},
		{Name: "core", State: v1alpha1.PhaseRemoving, Objects: 1, WaitingFor: []v1alpha1.Waiting{{Object: "ConfigMap d", Message: "being removed"}}},
	}
	got := removedPhasesOf(rev, result)
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
