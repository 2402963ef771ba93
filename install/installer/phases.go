// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"maps"
	"strings"

	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/validation"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
)

// phasesOf says where each phase of a revision stands after one pass; nil if the
// pass told nothing. Since when is for the reporter to say, which knows what was before.
func phasesOf(rev *revisionObjects, result machinery.RevisionResult) []v1alpha1.Phase {
	if result == nil {
		return nil
	}
	reached := map[string]machinery.PhaseResult{}
	for _, phase := range result.GetPhases() {
		reached[phase.GetName()] = phase
	}
	phases := make([]v1alpha1.Phase, len(rev.phases))
	for i, planned := range rev.phases {
		phases[i] = untouched(planned)
		if phase, found := reached[planned.Name]; found {
			describePhase(&phases[i], phase)
		}
	}
	return phases
}

// describePhase fills in what became of a phase that was reached.
func describePhase(into *v1alpha1.Phase, phase machinery.PhaseResult) {
	into.State = v1alpha1.PhaseProgressing
	if phase.IsComplete() {
		into.State = v1alpha1.PhaseComplete
	}
	for _, object := range phase.GetObjects() {
		if object.IsComplete() {
			into.Ready++
			continue
		}
		if blocks(object) {
			into.State = v1alpha1.PhaseBlocked
		}
		into.WaitingFor = append(into.WaitingFor, v1alpha1.Waiting{Object: describe(object.Object()), Message: lacks(object)})
	}
	if refused := phase.GetValidationError(); refused != nil {
		into.State = v1alpha1.PhaseBlocked
		for _, object := range refused.Objects {
			into.WaitingFor = append(into.WaitingFor, waitingForRef(object))
		}
	}
}

// blocks says whether somebody must do something about an object before its phase can go on.
func blocks(object machinery.ObjectResult) bool {
	if object.Action() == machinery.ActionCollision {
		return true
	}
	obj := object.Object()
	state, _ := probe.Condition(obj, "Compatible")
	return state == "False" && obj.GetObjectKind().GroupVersionKind().GroupKind() == probe.CompatibilityRequirement
}

func waitingForRef(refused validation.ObjectValidationError) v1alpha1.Waiting {
	return v1alpha1.Waiting{Object: describeRef(refused.ObjectRef), Message: fmt.Sprint(refused.Errors)}
}

// removedPhasesOf says what is left of each phase of a revision that is being removed.
func removedPhasesOf(rev *revisionObjects, result machinery.RevisionTeardownResult) []v1alpha1.Phase {
	left := map[string]machinery.PhaseTeardownResult{}
	for _, phase := range result.GetPhases() {
		left[phase.GetName()] = phase
	}
	var phases []v1alpha1.Phase
	for _, planned := range rev.phases {
		if phase, reached := left[planned.Name]; !reached {
			phases = append(phases, untouched(planned))
		} else if !phase.IsComplete() {
			phases = append(phases, removing(phase))
		}
	}
	return phases
}

// untouched is a phase whose turn has not come: the others before it are to be
// installed first, or, when the revision is removed, those behind it to go.
func untouched(planned revision.Phase) v1alpha1.Phase {
	return v1alpha1.Phase{Name: planned.Name, State: v1alpha1.PhasePending, Objects: count(len(planned.Objects))}
}

func removing(phase machinery.PhaseTeardownResult) v1alpha1.Phase {
	out := v1alpha1.Phase{Name: phase.GetName(), State: v1alpha1.PhaseRemoving, Objects: count(len(phase.Waiting()))}
	for _, ref := range phase.Waiting() {
		out.WaitingFor = append(out.WaitingFor, v1alpha1.Waiting{Object: describeRef(ref), Message: "being removed"})
	}
	return out
}

// merge adds the phases of versions that are being removed to those of others.
func merge(installed, removed map[string][]v1alpha1.Phase) map[string][]v1alpha1.Phase {
	if installed == nil {
		return removed
	}
	maps.Copy(installed, removed)
	return installed
}

// keptEvents tells which CRDs stay in the cluster though their version goes.
func keptEvents(version string, left removal) []status.Event {
	if len(left.kept) == 0 {
		return nil
	}
	return []status.Event{{
		Reason: status.CRDsKept, Warning: true,
		Message: "version " + version + " is being removed; these CRDs stay: " + strings.Join(left.kept, ", "),
	}}
}

// count is a number of objects as the API has it.
func count(n int) int32 { return int32(min(n, 1<<30)) } //nolint:gosec // bounded right here
