// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/internal/text"
)

// EventReason is the reason of an event. The type of a condition is the reason of
// the events about its transitions.
type EventReason string

// Reasons of events that are not transitions of conditions. docs/conditions.md explains each.
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

// pendingEvents are events that could not be written because the API server was unavailable; they are written with the next events. The
// recorders of client-go are not used, because all our events are about one object: the recorders merge events that have only their
// reason in common, and drop events if there are many about one object.
type pendingEvents struct {
	mu     sync.Mutex
	events []*corev1.Event
}

// maxPending limits the events that are kept while the API server is unavailable;
// the oldest are dropped. maxNote is the limit of events.k8s.io for a message, in
// bytes.
const (
	maxPending = 64
	maxNote    = 1024
)

// write writes events about the ClusterAPI object, after the pending ones.
func (p *pendingEvents) write(ctx context.Context, writer client.Writer, about *v1alpha1.ClusterAPI, events []Event, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, event := range events {
		log.FromContext(ctx).Info("Event", "event", event.Reason, "message", event.Message)
		p.events = append(p.events, newEvent(about, event, now))
	}
	p.events = p.events[max(0, len(p.events)-maxPending):]
	for len(p.events) > 0 {
		if err := writer.Create(ctx, p.events[0]); isRetryable(err) {
			log.FromContext(ctx).Info("Events are pending", "count", len(p.events), "cause", err.Error())
			return
		} else if err != nil && !apierrors.IsAlreadyExists(err) {
			log.FromContext(ctx).Info("Event rejected", "event", p.events[0].Reason, "cause", err.Error())
		}
		p.events = p.events[1:]
	}
}

// isRetryable reports whether writing the same event later may succeed.
func isRetryable(err error) bool {
	if err == nil {
		return false
	}
	apiError := apierrors.APIStatus(nil)
	return !errors.As(err, &apiError) || apiError.Status().Code >= 500 || apierrors.IsTooManyRequests(err)
}

// newEvent returns an event about the ClusterAPI object. The object may be gone
// already. Events about cluster-scoped objects are in namespace default.
func newEvent(about *v1alpha1.ClusterAPI, event Event, now time.Time) *corev1.Event {
	host, _ := os.Hostname()
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault,
			Name:      v1alpha1.ClusterAPIName + "." + cmp.Or(event.Key, strings.ToLower(rand.Text())), // fixed here, so that a retry cannot write it twice
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterAPI",
			Name: v1alpha1.ClusterAPIName, UID: about.UID, ResourceVersion: about.ResourceVersion,
		},
		Reason: string(event.Reason), Message: truncate(event.Message), Type: event.kind(),
		Source:         corev1.EventSource{Component: component, Host: host},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
}

// component is the name of the program in events.
const component = "capi-installer"

// truncate shortens a text to maxNote bytes.
func truncate(message string) string { return text.Truncate(message, maxNote) }
