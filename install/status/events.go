// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// EventReason is what happened: the reason of an event. The other reasons are
// the types of the conditions, for their transitions.
type EventReason string

// What happens besides transitions of conditions. docs/events.md explains each to an administrator.
const (
	// VersionStored: a new desired version was decided and written down.
	VersionStored EventReason = "VersionStored"
	// VersionInstalled: a version is completely installed and is the current one now.
	VersionInstalled EventReason = "VersionInstalled"
	// VersionRetired: a version that is no longer wanted is gone.
	VersionRetired EventReason = "VersionRetired"
	// OverrideInEffect: spec.imageOverrides replaces images of the release, others than before.
	OverrideInEffect EventReason = "OverrideInEffect"
	// DriftCorrected: an installed object was edited or deleted and has been put right.
	DriftCorrected EventReason = "DriftCorrected"
	// CRDsKept: CRDs were left in place when the version that brought them was removed.
	CRDsKept EventReason = "CRDsKept"
)

// Event is something that happened. A controller puts into its Outcome what it
// has done in that very run; what can be told from the status is told by Transitions.
type Event struct {
	Reason  EventReason
	Message string
	// Warning says that somebody should look at it.
	Warning bool
}

func (e Event) kind() string {
	if e.Warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// Transitions are the events between two states of the ClusterAPI object, of
// which the second one has just been written: there is nothing to remember, so
// that neither another run nor a restart tells anything twice.
func Transitions(before, after *v1alpha1.ClusterAPI) []Event {
	var events []Event
	if version := after.Status.Version(after.Status.DesiredVersion); version != nil && version.Name != before.Status.DesiredVersion {
		events = append(events, Event{Reason: VersionStored, Message: "version " + version.Name + " is to be installed: " + components(version)})
	}
	if current := after.Status.CurrentVersion; current != before.Status.CurrentVersion {
		events = append(events, Event{Reason: VersionInstalled, Message: "version " + current + " is completely installed"})
	}
	for _, version := range before.Status.Versions {
		if after.Status.Version(version.Name) == nil {
			events = append(events, Event{Reason: VersionRetired, Message: "version " + version.Name + " is no longer needed and has been removed"})
		}
	}
	for _, condition := range after.Status.Conditions {
		events = append(events, transition(before.Status.Conditions, condition)...)
	}
	return events
}

// components lists the providers of a version with their versions.
func components(version *v1alpha1.Version) string {
	names := make([]string, len(version.Components))
	for i, component := range version.Components {
		names[i] = strings.TrimSpace(component.Name + " " + component.Version)
	}
	return strings.Join(names, ", ")
}

// transition tells of a condition that has another status or another reason than
// before. Progressing and Degraded only repeat what the controllers' own
// conditions say, so nothing is told of them. How a condition begins is only worth
// telling when it is Degraded.
func transition(previous []metav1.Condition, condition metav1.Condition) []Event {
	before := meta.FindStatusCondition(previous, condition.Type)
	switch {
	case condition.Type == Progressing || condition.Type == Degraded:
		return nil
	case condition.Type == Upgradeable && condition.Reason == overridden:
		if before != nil && before.Message == condition.Message {
			return nil
		}
		return []Event{{Reason: OverrideInEffect, Message: condition.Message, Warning: true}}
	case before == nil && !failing(condition):
		return nil
	case before != nil && before.Status == condition.Status && before.Reason == condition.Reason:
		return nil
	}
	message := fmt.Sprintf("%s is %s (%s)", condition.Type, condition.Status, condition.Reason)
	if condition.Message != "" {
		message += ": " + condition.Message
	}
	return []Event{{Reason: EventReason(condition.Type), Message: message, Warning: alarming(condition)}}
}

// alarming says whether a condition is one that somebody should look at.
func alarming(condition metav1.Condition) bool {
	lost := condition.Type == Available || condition.Type == Upgradeable
	return lost && condition.Status == metav1.ConditionFalse || failing(condition)
}

// failing says whether a condition is a controller's Degraded, and true.
func failing(condition metav1.Condition) bool {
	return strings.HasSuffix(condition.Type, Degraded) && condition.Status == metav1.ConditionTrue
}
