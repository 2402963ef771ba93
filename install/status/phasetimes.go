// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// maxWaiting is the number of objects that a phase names in waitingFor.
const maxWaiting = 5

// stampPhases sets the time since which each phase is in its state: the previous
// time as long as the state is the same. It keeps the maxWaiting objects that each
// phase has waited for longest.
func stampPhases(previous, found []v1alpha1.Phase, now time.Time) []v1alpha1.Phase {
	at := metav1.NewTime(now.Truncate(time.Second))
	stamped := slices.Clone(found)
	for i := range stamped {
		phase := &stamped[i]
		before := phaseNamed(previous, phase.Name)
		phase.Since = at
		if before.State == phase.State {
			phase.Since = before.Since
		}
		phase.WaitingFor = stampWaiting(before.WaitingFor, phase.WaitingFor, at)
	}
	return stamped
}

// phaseNamed returns the phase with a name, or the zero value.
func phaseNamed(phases []v1alpha1.Phase, name string) v1alpha1.Phase {
	for _, phase := range phases {
		if phase.Name == name {
			return phase
		}
	}
	return v1alpha1.Phase{}
}

func stampWaiting(previous, found []v1alpha1.Waiting, at metav1.Time) []v1alpha1.Waiting {
	if len(found) == 0 {
		return nil
	}
	stamped := slices.Clone(found)
	for i := range stamped {
		waiting := &stamped[i]
		waiting.Since, waiting.Message = at, truncate(waiting.Message)
		for _, before := range previous {
			if before.Object == waiting.Object {
				waiting.Since = before.Since
			}
		}
	}
	slices.SortStableFunc(stamped, func(a, b v1alpha1.Waiting) int { return a.Since.Compare(b.Since.Time) })
	return stamped[:min(len(stamped), maxWaiting)]
}

// Advanced reports whether fewer objects of a version are left to become ready, or to be
// removed, than its status says.
func Advanced(before []v1alpha1.Version, after map[string][]v1alpha1.Phase) bool {
	for _, version := range before {
		if phases := after[version.Name]; phases != nil && version.Phases != nil && left(phases) < left(version.Phases) {
			return true
		}
	}
	return false
}

// left counts the objects of phases that are not ready, or not removed.
func left(phases []v1alpha1.Phase) (objects int32) {
	for _, phase := range phases {
		objects += phase.Objects - phase.Ready
	}
	return objects
}
