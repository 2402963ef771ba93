// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
)

// urgent lists the conditions and statuses that may need an action, most urgent
// first.
var urgent = []struct {
	condition string
	status    metav1.ConditionStatus
}{
	{versionDegraded, metav1.ConditionTrue}, {installerDegraded, metav1.ConditionTrue},
	{versionDegraded, metav1.ConditionUnknown}, {installerDegraded, metav1.ConditionUnknown}, {available, metav1.ConditionFalse},
	{installerProgressing, metav1.ConditionTrue}, {versionProgressing, metav1.ConditionTrue},
	{installerProgressing, metav1.ConditionFalse}, {upgradeable, metav1.ConditionFalse},
}

// readLog is the next step while a running installer has not reported anything.
const readLog = "Wait for the first report; if there is none within a minute, read the log of the installer."

// stepsOf returns the next steps for a snapshot: to start the installer, and one for each reason.
func stepsOf(from Snapshot, process Process) []Step {
	if process.State == Stopped {
		steps := []Step{{Action: process.Action}}
		if from.reported() {
			steps = append(steps, reasonSteps(from)...)
		}
		return steps
	}
	if process.State == Starting && from.empty() {
		return nil // the installer creates the ClusterAPI object
	}
	return slices.Concat(resume(from), restart(from), reasonSteps(from))
}

// resume returns the step for a paused installer, with the changes that it would make.
func resume(from Snapshot) []Step {
	if from.ClusterAPI == nil || from.ClusterAPI.Spec.InstallerMode != v1alpha1.Paused {
		return nil
	}
	step := Step{Action: "Resume the installer: capi-manifests resume"}
	if condition := meta.FindStatusCondition(from.ClusterAPI.Status.Conditions, installerProgressing); condition != nil && condition.Reason == string(reason.Paused) {
		step.Condition, step.Status, step.Reason, step.Since, step.Cause = condition.Type, condition.Status, condition.Reason, condition.LastTransitionTime, condition.Message
	}
	return []Step{step}
}

// restart returns the step for a platform that the installer reads at its next start.
func restart(from Snapshot) []Step {
	if !from.platformDiffers() {
		return nil
	}
	return []Step{{
		Cause:  fmt.Sprintf("The installer was started for another platform than %s, the one in ConfigMap %s.", from.Requested.Platform, from.Requested.ConfigMap),
		Action: fmt.Sprintf("Restart it: kubectl rollout restart deployment %s -n %s", InstallerName, from.Installer.Namespace),
	}}
}

// reported reports whether conditions describe the current state of the ClusterAPI object.
func (s Snapshot) reported() bool {
	return s.ClusterAPI != nil && len(s.ClusterAPI.Status.Conditions) > 0 && !stale(s.ClusterAPI)
}

// reasonSteps returns the next steps for the reasons of the conditions.
func reasonSteps(from Snapshot) []Step {
	switch {
	case from.empty():
		return []Step{{Action: `Create ClusterAPI "cluster" to install Cluster API.`}}
	case from.ClusterAPI == nil:
		return []Step{{Reason: string(reason.Uninstalling), Action: reason.Of(reason.Uninstalling).Action()}}
	case len(from.ClusterAPI.Status.Conditions) == 0:
		return []Step{{Cause: `ClusterAPI "cluster" has no conditions.`, Action: readLog}}
	case !from.ClusterAPI.DeletionTimestamp.IsZero() && stale(from.ClusterAPI):
		return []Step{{
			Cause:  `ClusterAPI "cluster" was deleted, and its finalizer preserves it until the installer has removed everything.`,
			Action: readLog,
		}}
	}
	steps, seen := []Step(nil), map[string]bool{}
	for _, u := range urgent {
		condition := meta.FindStatusCondition(from.ClusterAPI.Status.Conditions, u.condition)
		if condition == nil || condition.Status != u.status || seen[condition.Reason] {
			continue
		}
		entry := reason.Of(reason.Reason(condition.Reason))
		if entry.Step == "" || entry.Reason == reason.Paused || entry.Reason == reason.InstallerPaused { // the step of resume
			continue
		}
		seen[condition.Reason] = true
		steps = append(steps, Step{
			Condition: condition.Type, Status: condition.Status, Reason: condition.Reason,
			Since: condition.LastTransitionTime, Cause: entry.WithoutStep(condition.Message), Action: entry.Action(),
		})
	}
	refers := func(step Step) bool { return reason.Of(reason.Reason(step.Reason)).Refers }
	if direct := slices.DeleteFunc(slices.Clone(steps), refers); len(direct) > 0 {
		return direct
	}
	return steps
}
