// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
)

// EventReason is the reason of an event. The type of a condition is the reason of
// the events about its transitions.
type EventReason string

// Reasons of events that are not transitions of conditions. docs/events.md explains each.
const (
	// VersionStored: a new desired version was created and stored.
	VersionStored EventReason = "VersionStored"
	// VersionInstalled: a version is completely installed and became the current version.
	VersionInstalled EventReason = "VersionInstalled"
	// VersionRetired: an older version was removed.
	VersionRetired EventReason = "VersionRetired"
	// OverrideInEffect: spec.imageOverrides changed and replaces images of the release.
	OverrideInEffect EventReason = "OverrideInEffect"
	// DriftCorrected: an external change or deletion of an installed object was reverted.
	DriftCorrected EventReason = "DriftCorrected"
	// RestoreRecognized: a tool has restored installed objects from a backup.
	RestoreRecognized EventReason = "RestoreRecognized"
	// ObjectsAdopted: objects that cluster-capi-operator had installed were adopted.
	ObjectsAdopted EventReason = "ObjectsAdopted"
	// ObjectsReplaced: objects were deleted and created again, because an immutable field of them changed.
	ObjectsReplaced EventReason = "ObjectsReplaced"
	// ValuesReplaced: an admission plugin replaces values of the manifests in each write.
	ValuesReplaced EventReason = "ValuesReplaced"
	// OrphansRemoved: objects whose version does not exist were removed.
	OrphansRemoved EventReason = "OrphansRemoved"
	// InterceptorsRemoved: objects that intercept requests, of a version that was never complete, were deleted.
	InterceptorsRemoved EventReason = "InterceptorsRemoved"
	// CRDsKept: CRDs were retained when their version was removed.
	CRDsKept EventReason = "CRDsKept"
)

// Event is an event about the ClusterAPI object. Outcome.Events holds the events of
// a reconcile that the status does not show; Transitions returns the others.
type Event struct {
	Reason  EventReason
	Message string
	// Warning is set for events that need attention.
	Warning bool
	// Key, if it is not empty, is a part of the name of the event. While an event with the same key
	// exists, it is not written again, also by another process.
	Key string
}

func (e Event) kind() string {
	if e.Warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// Transitions returns the events for a change of the ClusterAPI object that was
// just written. It depends on nothing else, so neither another reconcile nor a
// restart repeats an event.
func Transitions(before, after *v1alpha1.ClusterAPI) []Event {
	var events []Event
	if version := after.Status.Version(after.Status.DesiredVersion); version != nil && version.Name != before.Status.DesiredVersion {
		events = append(events, Event{Reason: VersionStored, Message: "version " + version.Name + " was created and will be installed: " + components(version)})
	}
	if current := after.Status.CurrentVersion; current != before.Status.CurrentVersion {
		events = append(events, Event{Reason: VersionInstalled, Message: "version " + current + " is completely installed"})
	}
	for _, version := range before.Status.Versions {
		if after.Status.Version(version.Name) == nil {
			events = append(events, Event{Reason: VersionRetired, Message: "version " + version.Name + " was removed"})
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

// transition returns the event for a condition whose status or reason changed. The
// aggregate Progressing and Degraded repeat the controllers' own conditions and
// have no events, and neither has the Progressing of a controller with an error, whose Degraded has the cause. A new condition has an event only if it is a true Degraded.
func transition(previous []metav1.Condition, condition metav1.Condition) []Event {
	before := meta.FindStatusCondition(previous, condition.Type)
	switch {
	case condition.Type == Progressing || condition.Type == Degraded:
		return nil
	case condition.Type == Upgradeable && condition.Reason == string(reason.ImageOverrides):
		if before != nil && before.Message == condition.Message {
			return nil
		}
		return []Event{{Reason: OverrideInEffect, Message: condition.Message, Warning: true}}
	case before == nil && !failing(condition):
		return nil
	case strings.HasSuffix(condition.Type, Progressing) && reason.Of(reason.Reason(condition.Reason)).Severity >= reason.Retryable:
		return nil // it refers to Degraded
	case before != nil && before.Status == condition.Status && before.Reason == condition.Reason:
		return nil
	}
	message := fmt.Sprintf("%s is %s (%s)", condition.Type, condition.Status, condition.Reason)
	if condition.Message != "" {
		message += ": " + condition.Message
	}
	return []Event{{Reason: EventReason(condition.Type), Message: message, Warning: needsAttention(condition)}}
}

// needsAttention reports whether a condition warrants a warning.
func needsAttention(condition metav1.Condition) bool {
	positive := condition.Type == Available || condition.Type == Upgradeable
	return positive && condition.Status == metav1.ConditionFalse || failing(condition)
}

// failing reports whether a condition is the Degraded of a controller, and true.
func failing(condition metav1.Condition) bool {
	return strings.HasSuffix(condition.Type, Degraded) && condition.Status == metav1.ConditionTrue
}
