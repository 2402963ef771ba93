// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"maps"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/revision"
)

// phases returns the state of each phase of the version; nil if it is unknown. The reporter
// adds the times.
func (a attempt) phases() []v1alpha1.Phase {
	if !a.applied {
		return nil
	}
	reached := map[string]engine.Phase{}
	for _, phase := range a.result.Phases {
		reached[phase.Name] = phase
	}
	planned := a.plan.all()
	if a.complete() { // the version becomes current, and has the phases that the former one maintained
		planned = a.plan.withOthers()
	}
	phases := make([]v1alpha1.Phase, len(planned))
	for i := range planned {
		phases[i] = pendingPhase(planned[i])
		if phase, found := reached[planned[i].Name]; found {
			setPhase(&phases[i], phase)
		}
	}
	return phases
}

// setPhase sets the state of a phase that was reconciled.
func setPhase(into *v1alpha1.Phase, phase engine.Phase) {
	into.State = v1alpha1.PhaseProgressing
	if phase.Complete {
		into.State = v1alpha1.PhaseComplete
	}
	for _, o := range phase.Objects {
		if o.Held != "" {
			if into.State == v1alpha1.PhaseComplete {
				into.State = v1alpha1.PhaseProgressing
			}
			into.WaitingFor = append(into.WaitingFor, v1alpha1.Waiting{Object: o.String(), Message: o.Held})
			continue
		}
		if o.Ready {
			into.Ready++
			continue
		}
		if o.Blocked {
			into.State = v1alpha1.PhaseBlocked
		}
		into.WaitingFor = append(into.WaitingFor, v1alpha1.Waiting{Object: o.String(), Message: strings.TrimSuffix(o.Reason+"; "+o.Cause, "; ")})
	}
	if phase.Rejection != nil {
		into.State = v1alpha1.PhaseBlocked
		for _, rejected := range phase.Rejection.Objects {
			into.WaitingFor = append(into.WaitingFor, v1alpha1.Waiting{Object: rejected.String(), Message: fmt.Sprint(rejected.Errors)})
		}
	}
}

// pendingPhase returns the state of a phase that was not reached because other phases
// must be installed, or removed, first.
func pendingPhase(planned revision.Phase) v1alpha1.Phase {
	return v1alpha1.Phase{Name: planned.Name, State: v1alpha1.PhasePending, Objects: count(len(planned.Objects))}
}

// removedPhases returns the remaining phases of a version that is being removed.
func removedPhases(planned []revision.Phase, removal engine.Removal) []v1alpha1.Phase {
	reached := map[string]engine.RemovedPhase{}
	for _, phase := range removal.Phases {
		reached[phase.Name] = phase
	}
	var phases []v1alpha1.Phase
	for _, phase := range planned {
		if removed, found := reached[phase.Name]; !found {
			phases = append(phases, pendingPhase(phase))
		} else if !removed.Complete {
			phases = append(phases, removingPhase(removed))
		}
	}
	return phases
}

func removingPhase(phase engine.RemovedPhase) v1alpha1.Phase {
	out := v1alpha1.Phase{Name: phase.Name, State: v1alpha1.PhaseRemoving, Objects: count(len(phase.Waiting))}
	for _, waiting := range phase.Waiting {
		out.WaitingFor = append(out.WaitingFor, v1alpha1.Waiting{Object: waiting.String(), Message: "being removed"})
	}
	return out
}

// mergePhases returns the phases of installed versions and of versions that are being removed.
func mergePhases(installed, removed map[string][]v1alpha1.Phase) map[string][]v1alpha1.Phase {
	if installed == nil {
		return removed
	}
	maps.Copy(installed, removed)
	return installed
}

// count converts a number of objects to the type of the API.
func count(n int) int32 { return int32(min(n, 1<<30)) } //nolint:gosec // bounded by min
