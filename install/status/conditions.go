// SPDX-License-Identifier: Apache-2.0

// Package status turns what a controller came to into conditions. It alone
// decides whether an error is retried quietly or makes the operator Degraded.
//
// A controller returns one Outcome. Conditions makes the controller's own two
// conditions of it, Aggregate the four that the cluster looks at, and Reporter
// writes all of them to the ClusterAPI object and the ClusterOperator.
package status

import (
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Controller is who reports; its conditions start with its name.
type Controller string

// The controllers that report.
const (
	Version   Controller = "Version"
	Installer Controller = "Installer"
)

// The conditions that sum up both controllers.
const (
	Available   = string(configv1.OperatorAvailable)
	Progressing = string(configv1.OperatorProgressing)
	Degraded    = string(configv1.OperatorDegraded)
	Upgradeable = string(configv1.OperatorUpgradeable)
)

// Inertia is how long a retryable error may last before it makes the operator Degraded.
const Inertia = 5 * time.Minute

const lookAgain = 20 * time.Second

// Outcome is what one reconcile came to.
type Outcome struct {
	// Reason is why the controller is where it is; it decides the conditions.
	Reason Reason
	// Message is what a person reads: what is waited for, or the cause and the next step.
	Message string
	// Err is the error behind the reason, for the log and for backing off. Message is used where it is set.
	Err error
	// Installed is whether a version is completely installed and healthy; nil where the controller cannot know.
	Installed *bool
	// ReleaseInstalled says that the running release is completely installed. Only
	// the version controller knows: what is installed may be of the release before.
	ReleaseInstalled bool
	// Events are what the run has done that the status does not tell of, such as drift that it corrected.
	Events []Event
	// Phases say for versions, by name, where each of their phases stands now; the
	// reporter adds since when. Versions that are not in it keep what they had.
	Phases map[string][]v1alpha1.Phase
	// Again is how long until the same is told in other words, such as another age; 0 means never.
	Again time.Duration
	// Related are the objects to list on the ClusterOperator; nil where the controller cannot know.
	Related []configv1.ObjectReference
}

// text is the message, or else the error's.
func (o Outcome) text() string {
	if o.Message == "" && o.Err != nil {
		return o.Err.Error()
	}
	return o.Message
}

// Retry returns the error if trying again soon may help, else nil.
func (o Outcome) Retry() error {
	if severities[o.Reason] == retrying {
		return o.Err
	}
	return nil
}

// LookAgain is how long until the next look at what no event tells of: an object
// that is somebody else's, what has the API server refuse one of ours, or an API
// that is not there, or until the same is told in other words. 0 means that an event will.
func (o Outcome) LookAgain() time.Duration {
	switch o.Reason {
	case Collision, ObjectsRefused, CheckerAbsent:
		if o.Again > 0 {
			return min(o.Again, lookAgain)
		}
		return lookAgain
	default:
		return o.Again
	}
}

// Conditions returns the two conditions of a controller after an outcome.
//
// A retryable error leaves Degraded Unknown until it has lasted for Inertia,
// counted from when it became Unknown. The time is in the condition, so it
// survives a restart and a change of the leader.
func Conditions(controller Controller, outcome Outcome, previous []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	level := severities[outcome.Reason]
	progressing := metav1.Condition{Type: string(controller) + Progressing, Status: truth(level == working || level == retrying)}
	degraded := metav1.Condition{Type: string(controller) + Degraded, Status: degradedStatus(controller, level, previous, now)}
	progressing.Reason, progressing.Message = string(outcome.Reason), progressMessage(controller, outcome)
	degraded.Reason, degraded.Message = string(AsExpected), degradedMessage(outcome)
	if level >= retrying {
		degraded.Reason = string(outcome.Reason)
	}
	return stamp([]metav1.Condition{progressing, degraded}, previous, generation, now)
}

func degradedStatus(controller Controller, level severity, previous []metav1.Condition, now time.Time) metav1.ConditionStatus {
	if level != retrying {
		return truth(level == terminal)
	}
	before := meta.FindStatusCondition(previous, string(controller)+Degraded)
	switch {
	case before == nil || before.Status == metav1.ConditionFalse:
		return metav1.ConditionUnknown
	case before.Status == metav1.ConditionTrue, now.Sub(before.LastTransitionTime.Time) >= Inertia:
		return metav1.ConditionTrue
	default:
		return metav1.ConditionUnknown
	}
}

// Aggregate returns the four conditions of the whole operator, from those of
// its controllers and the last outcome.
func Aggregate(cluster *v1alpha1.ClusterAPI, conditions []metav1.Condition, outcome Outcome, now time.Time) []metav1.Condition {
	return stamp([]metav1.Condition{
		available(cluster, conditions, outcome),
		anyOf(Progressing, conditions),
		anyOf(Degraded, conditions),
		upgradeable(cluster.Spec),
	}, conditions, cluster.Generation, now)
}

// The reasons of Available and Upgradeable besides AsExpected. docs/conditions.md explains each.
const (
	// notInstalled: no version has ever been completely installed.
	notInstalled = "NotInstalled"
	// notWorking: what is installed does not work any more.
	notWorking = "NotWorking"
	// overridden: spec.imageOverrides is set.
	overridden = "ImageOverrides"
	// installerPaused: spec.installerMode is Paused, so that an upgrade would never end.
	installerPaused = "InstallerPaused"
)

func available(cluster *v1alpha1.ClusterAPI, conditions []metav1.Condition, outcome Outcome) metav1.Condition {
	installed := outcome.Installed
	before := meta.FindStatusCondition(conditions, Available)
	current := cluster.Status.CurrentVersion
	switch {
	case outcome.Reason == Uninstalling, outcome.Reason == Uninstalled:
		return metav1.Condition{Type: Available, Status: metav1.ConditionFalse, Reason: string(outcome.Reason), Message: outcome.text()}
	case installed != nil && *installed:
		return metav1.Condition{Type: Available, Status: metav1.ConditionTrue, Reason: string(AsExpected), Message: "Cluster API is installed"}
	case installed == nil && before != nil:
		return *before
	case current != "":
		return metav1.Condition{Type: Available, Status: metav1.ConditionFalse, Reason: notWorking,
			Message: "version " + current + " is installed and does not work; its phases in status.versions say what is missing"}
	default:
		return metav1.Condition{Type: Available, Status: metav1.ConditionFalse, Reason: notInstalled, Message: "no version of Cluster API is completely installed"}
	}
}

// anyOf is true when that condition of any controller is, and says which. While
// both are progressing, it is the installer that gets on and the version controller
// that waits for it, so the installer's words come alone.
func anyOf(kind string, conditions []metav1.Condition) metav1.Condition {
	sum := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: string(AsExpected)}
	var said []metav1.Condition
	for _, controller := range []Controller{Version, Installer} {
		own := meta.FindStatusCondition(conditions, string(controller)+kind)
		if own == nil || own.Status != metav1.ConditionTrue {
			continue
		}
		if kind == Progressing && slices.ContainsFunc(said, waitsForInstaller) {
			said = nil
		}
		said = append(said, metav1.Condition{Reason: string(controller) + own.Reason, Message: own.Message})
	}
	if said == nil {
		return sum
	}
	sum.Status, sum.Reason = metav1.ConditionTrue, said[0].Reason
	var messages []string
	for _, own := range said {
		messages = append(messages, own.Message)
	}
	sum.Message = strings.Join(messages, "; ")
	return sum
}

// waitsForInstaller says whether what the version controller does is to wait.
func waitsForInstaller(said metav1.Condition) bool {
	return said.Reason == string(Version)+string(RollingOut) || said.Reason == string(Version)+string(RetiringRevisions)
}

// upgradeable is false while an upgrade would not give what the release brings, or would never end.
func upgradeable(spec v1alpha1.ClusterAPISpec) metav1.Condition {
	var reasons, messages []string
	if names := overrideNames(spec.ImageOverrides); names != "" {
		reasons = append(reasons, overridden)
		messages = append(messages, "images are overridden: "+names+"; remove them from spec.imageOverrides before upgrading")
	}
	if spec.InstallerMode == v1alpha1.Paused {
		reasons = append(reasons, installerPaused)
		messages = append(messages, "the installer is paused; set spec.installerMode to Managed before upgrading")
	}
	if reasons == nil {
		return metav1.Condition{Type: Upgradeable, Status: metav1.ConditionTrue, Reason: string(AsExpected)}
	}
	return metav1.Condition{Type: Upgradeable, Status: metav1.ConditionFalse, Reason: reasons[0], Message: strings.Join(messages, "; ")}
}

func overrideNames(overrides []v1alpha1.ImageOverride) string {
	names := make([]string, len(overrides))
	for i, override := range overrides {
		names[i] = override.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// stamp gives each condition the time at which its status last changed.
func stamp(conditions, previous []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	for i := range conditions {
		condition := &conditions[i]
		condition.ObservedGeneration = generation
		condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		before := meta.FindStatusCondition(previous, condition.Type)
		if before != nil && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
	}
	return conditions
}

func truth(is bool) metav1.ConditionStatus {
	if is {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}
