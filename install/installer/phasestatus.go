// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"maps"
	"slices"

	"pkg.package-operator.run/boxcutter/machinery"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

// phasesOf returns the state of each phase of a revision after a reconcile; nil if
// there is no result. The reporter adds the times.
func phasesOf(rev *loadedRevision, result machinery.RevisionResult) []v1alpha1.Phase {
	if result == nil {
		return nil
	}
	reached := map[string]machinery.PhaseResult{}
	for _, phase := range result.GetPhases() {
		reached[phase.GetName()] = phase
	}
	all := slices.Concat(rev.checks, rev.phases)
	phases := make([]v1alpha1.Phase, len(all))
	for i, planned := range all {
		phases[i] = pendingPhase(planned)
		if phase, found := reached[planned.Name]; found {
			setPhase(&phases[i], phase)
		}
	}
	return phases
}

// setPhase sets the state of a phase that was reconciled.
func setPhase(into *v1alpha1.Phase, phase machinery.PhaseResult) {
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
		into.WaitingFor = append(into.WaitingFor, v1alpha1.Waiting{Object: describe(object.Object()), Message: incompleteReason(object)})
	}
	if invalid := phase.GetValidationError(); invalid != nil {
		into.State = v1alpha1.PhaseBlocked
		for _, object := range invalid.Objects {
			into.WaitingFor = append(into.WaitingFor, v1alpha1.Waiting{Object: describeRef(object.ObjectRef), Message: fmt.Sprint(object.Errors)})
		}
	}
}

// blocks reports whether a user must act on an object before its phase can continue.
func blocks(object machinery.ObjectResult) bool {
	return object.Action() == machinery.ActionCollision || isIncompatible(object.Object())
}

// removedPhasesOf returns the remaining phases of a revision that is being removed.
func removedPhasesOf(rev *loadedRevision, result machinery.RevisionTeardownResult) []v1alpha1.Phase {
	reached := map[string]machinery.PhaseTeardownResult{}
	for _, phase := range result.GetPhases() {
		reached[phase.GetName()] = phase
	}
	var phases []v1alpha1.Phase
	for _, planned := range rev.phases {
		if phase, found := reached[planned.Name]; !found {
			phases = append(phases, pendingPhase(planned))
		} else if !phase.IsComplete() {
			phases = append(phases, removingPhase(phase))
		}
	}
	return phases
}

// pendingPhase returns the state of a phase that was not reached because other phases
// must be installed, or removed, first.
func pendingPhase(planned revision.Phase) v1alpha1.Phase {
	return v1alpha1.Phase{Name: planned.Name, State: v1alpha1.PhasePending, Objects: count(len(planned.Objects))}
}

func removingPhase(phase machinery.PhaseTeardownResult) v1alpha1.Phase {
	out := v1alpha1.Phase{Name: phase.GetName(), State: v1alpha1.PhaseRemoving, Objects: count(len(phase.Waiting()))}
	for _, ref := range phase.Waiting() {
		out.WaitingFor = append(out.WaitingFor, v1alpha1.Waiting{Object: describeRef(ref), Message: "being removed"})
	}
	return out
}

// mergePhases adds the phases of versions that are being removed to those of the others.
func mergePhases(installed, removed map[string][]v1alpha1.Phase) map[string][]v1alpha1.Phase {
	if installed == nil {
		return removed
	}
	maps.Copy(installed, removed)
	return installed
}

// count converts a number of objects to the type of the API.
func count(n int) int32 { return int32(min(n, 1<<30)) } //nolint:gosec // bounded by min
