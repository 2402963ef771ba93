// SPDX-License-Identifier: Apache-2.0

// Package status turns the outcomes of controllers into conditions. Only this
// package decides whether an error is retried without being reported or makes the
// operator Degraded.
//
// A controller returns one Outcome. Conditions returns the two conditions of the controller, and Aggregate derives the four conditions
// of the operator from the conditions of both. Each controller has a Reporter, and writes these to the ClusterAPI object with a field manager
// of its own. OperatorReconciler derives the ClusterOperator from the ClusterAPI object.
package status

import (
	"cmp"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Controller is the prefix of the conditions of a controller.
type Controller string

// The controllers that report.
const (
	Version   Controller = "Version"
	Installer Controller = "Installer"
)

// fieldOwner returns the field manager of the controller in the status.
func (c Controller) fieldOwner() client.FieldOwner {
	return client.FieldOwner(v1alpha1.Prefix + "/" + strings.ToLower(string(c)) + "-status")
}

// decided returns the version in the status that only this controller decides on.
func (c Controller) decided(s v1alpha1.ClusterAPIStatus) string {
	if c == Version {
		return s.DesiredVersion
	}
	return s.CurrentVersion
}

// The aggregate conditions of both controllers.
const (
	Available   = string(configv1.OperatorAvailable)
	Progressing = string(configv1.OperatorProgressing)
	Degraded    = string(configv1.OperatorDegraded)
	Upgradeable = string(configv1.OperatorUpgradeable)
)

// Inertia is how long a retryable error may last before the operator is Degraded.
const Inertia = 5 * time.Minute

// Conditions returns the two conditions of a controller after an outcome.
//
// A retryable error leaves Degraded Unknown until it has lasted for Inertia,
// counted from the transition to Unknown. That time is in the condition, so it
// survives a restart and a change of leader.
func Conditions(controller Controller, outcome Outcome, previous []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	level := outcome.severity()
	progressing := metav1.Condition{Type: string(controller) + Progressing, Status: truth(level == reason.InProgress || level == reason.Retryable)}
	degraded := metav1.Condition{Type: string(controller) + Degraded, Status: degradedStatus(controller, level, previous, now)}
	progressing.Reason, progressing.Message = string(outcome.Reason), progressMessage(controller, outcome)
	degraded.Reason, degraded.Message = string(reason.AsExpected), degradedMessage(outcome)
	if level >= reason.Retryable {
		degraded.Reason = string(outcome.Reason)
	}
	return stamp([]metav1.Condition{progressing, degraded}, previous, generation, now)
}

func degradedStatus(controller Controller, level reason.Severity, previous []metav1.Condition, now time.Time) metav1.ConditionStatus {
	if level != reason.Retryable {
		return truth(level == reason.Terminal)
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

// Aggregate returns the four conditions of the operator, from the conditions of its
// controllers and the last outcome. They have seen the generation that both controllers have seen.
func Aggregate(cluster *v1alpha1.ClusterAPI, conditions []metav1.Condition, outcome Outcome, now time.Time) []metav1.Condition {
	return stamp([]metav1.Condition{
		available(cluster, conditions, outcome),
		anyOf(Progressing, conditions),
		anyOf(Degraded, conditions),
		upgradeable(cluster.Spec),
	}, conditions, oldest(conditions, cluster.Generation), now)
}

// oldest returns the lowest generation in the conditions of the controllers, at most the present one.
func oldest(conditions []metav1.Condition, present int64) int64 {
	for _, controller := range []Controller{Version, Installer} {
		if own := meta.FindStatusCondition(conditions, string(controller)+Progressing); own != nil {
			present = min(present, own.ObservedGeneration)
		}
	}
	return present
}

func available(cluster *v1alpha1.ClusterAPI, conditions []metav1.Condition, outcome Outcome) metav1.Condition {
	installed := outcome.Installed
	before := meta.FindStatusCondition(conditions, Available)
	current := cluster.Status.CurrentVersion
	switch {
	case outcome.Reason == reason.Uninstalling, outcome.Reason == reason.Uninstalled, isDeleted(cluster) && installed != nil && !*installed:
		return metav1.Condition{Type: Available, Status: metav1.ConditionFalse, Reason: string(outcome.Reason), Message: outcome.text()}
	case current == "" && Unsupported(conditions):
		return metav1.Condition{Type: Available, Status: metav1.ConditionTrue, Reason: string(reason.UnsupportedPlatform),
			Message: meta.FindStatusCondition(conditions, string(Version)+Progressing).Message}
	case installed != nil && *installed:
		return metav1.Condition{Type: Available, Status: metav1.ConditionTrue, Reason: string(reason.AsExpected), Message: "Cluster API is installed"}
	case before == nil && current == "" && outcome.predecessor != "":
		return metav1.Condition{Type: Available, Status: metav1.ConditionTrue, Reason: string(reason.PredecessorInstalled),
			Message: "revision " + outcome.predecessor + " of cluster-capi-operator is installed"}
	case before != nil && (installed == nil || before.Reason == string(reason.PredecessorInstalled) && current == ""):
		return *before
	case current != "":
		return metav1.Condition{Type: Available, Status: metav1.ConditionFalse, Reason: string(reason.NotWorking),
			Message: reason.Of(reason.NotWorking).WithStep("version " + current + " is installed but unavailable")}
	default:
		return metav1.Condition{Type: Available, Status: metav1.ConditionFalse, Reason: string(reason.NotInstalled), Message: reason.Of(reason.NotInstalled).Message}
	}
}

// Unsupported reports whether the version controller found that Cluster API is not supported on the cluster's platform.
func Unsupported(conditions []metav1.Condition) bool {
	own := meta.FindStatusCondition(conditions, string(Version)+Progressing)
	return own != nil && own.Reason == string(reason.UnsupportedPlatform)
}

// isDeleted reports whether the ClusterAPI object exists until everything is removed.
func isDeleted(cluster *v1alpha1.ClusterAPI) bool { return !cluster.DeletionTimestamp.IsZero() }

// anyOf aggregates a condition of both controllers: it is true if either is true,
// and has the messages of both. While the version controller waits for the
// installer controller, only the message of the latter is included.
func anyOf(kind string, conditions []metav1.Condition) metav1.Condition {
	sum := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: string(reason.AsExpected)}
	var found []metav1.Condition
	for _, controller := range []Controller{Version, Installer} {
		own := meta.FindStatusCondition(conditions, string(controller)+kind)
		if own == nil || own.Status != metav1.ConditionTrue {
			continue
		}
		if kind == Progressing && slices.ContainsFunc(found, waitsForInstaller) {
			found = nil
		}
		found = append(found, metav1.Condition{Reason: string(controller) + own.Reason, Message: own.Message})
	}
	if found == nil {
		return sum
	}
	sum.Status, sum.Reason = metav1.ConditionTrue, found[0].Reason
	var messages []string
	for _, own := range found {
		messages = append(messages, own.Message)
	}
	sum.Message = strings.Join(messages, "; ")
	return sum
}

// waitsForInstaller reports whether the version controller waits for the installer.
func waitsForInstaller(c metav1.Condition) bool {
	return c.Reason == string(Version)+string(reason.RollingOut) || c.Reason == string(Version)+string(reason.RetiringRevisions)
}

// upgradeable returns a condition that is false while an upgrade would not install
// the new release, or would not complete.
func upgradeable(spec v1alpha1.ClusterAPISpec) metav1.Condition {
	var reasons []reason.Reason
	var messages []string
	add := func(found reason.Reason, cause string) {
		reasons, messages = append(reasons, found), append(messages, reason.Of(found).WithStep(cause))
	}
	if names := overrideNames(spec.ImageOverrides); names != "" {
		add(reason.ImageOverrides, "images are overridden: "+names)
	}
	if spec.InstallerMode == v1alpha1.Paused {
		add(reason.InstallerPaused, "the installer is paused")
	}
	if reasons == nil {
		return metav1.Condition{Type: Upgradeable, Status: metav1.ConditionTrue, Reason: string(reason.AsExpected)}
	}
	return metav1.Condition{Type: Upgradeable, Status: metav1.ConditionFalse, Reason: string(reasons[0]), Message: strings.Join(messages, "; ")}
}

func overrideNames(overrides []v1alpha1.ImageOverride) string {
	names := make([]string, len(overrides))
	for i, override := range overrides {
		names[i] = override.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// maxMessage is the limit of a condition's message in characters, from metav1.Condition. A hundred rejected objects would
// cause a longer one, and the API server would reject the whole status.
const maxMessage = 32 << 10

// stamp shortens the message and sets the transition time of each condition. A time in the future comes from a clock
// that was wrong, of this process or of another one: it would delay Degraded.
func stamp(conditions, previous []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	for i := range conditions {
		condition := &conditions[i]
		condition.Message = text.Truncate(condition.Message, maxMessage)
		condition.ObservedGeneration = generation
		condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		before := meta.FindStatusCondition(previous, condition.Type)
		if before != nil && before.Status == condition.Status && !before.LastTransitionTime.After(now) {
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

// progressMessage returns the message of Progressing. It refers to Degraded for errors.
func progressMessage(controller Controller, outcome Outcome) string {
	entry := reason.Of(outcome.Reason)
	switch severity := outcome.severity(); {
	case severity == reason.Retryable, severity == reason.Terminal && entry.Recheck > 0:
		return "retrying; see " + string(controller) + Degraded
	case severity == reason.Terminal:
		return "stopped; see " + string(controller) + Degraded
	default:
		return cmp.Or(outcome.text(), entry.Message)
	}
}

// degradedMessage returns the cause and the next step.
func degradedMessage(outcome Outcome) string {
	if outcome.severity() < reason.Retryable {
		return ""
	}
	return reason.Of(outcome.Reason).WithStep(outcome.text())
}

// gravestMessage returns the message of the condition that needs most attention; empty if none does.
func gravestMessage(conditions []metav1.Condition) string {
	for _, grave := range []struct {
		kind   string
		status metav1.ConditionStatus
		reason reason.Reason
	}{
		{Degraded, metav1.ConditionTrue, ""},
		{string(Version) + Degraded, metav1.ConditionUnknown, ""}, {string(Installer) + Degraded, metav1.ConditionUnknown, ""}, // an error that is retried
		{Progressing, metav1.ConditionTrue, ""}, {Available, metav1.ConditionFalse, ""},
		{string(Installer) + Progressing, metav1.ConditionFalse, reason.UnknownEntries}, {Upgradeable, metav1.ConditionFalse, ""},
	} {
		found := meta.FindStatusCondition(conditions, grave.kind)
		if found != nil && found.Status == grave.status && found.Message != "" && (grave.reason == "" || found.Reason == string(grave.reason)) {
			return found.Message
		}
	}
	return ""
}
