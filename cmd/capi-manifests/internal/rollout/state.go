// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
)

// The conditions that the two controllers write, and one that aggregates them.
const (
	versionProgressing   = "VersionProgressing"
	versionDegraded      = "VersionDegraded"
	installerProgressing = "InstallerProgressing"
	installerDegraded    = "InstallerDegraded"
	available            = "Available"
	upgradeable          = "Upgradeable"
)

// stateOf returns the state of the rollout and a sentence about it. If the status
// does not describe the current spec, the state is neither AtRest nor Blocked, so
// that a script can wait directly after a change of the spec.
func stateOf(from Snapshot, process Process) (State, string) {
	switch process.State {
	case Stopped:
		return Blocked, process.sentence()
	case Starting:
		return RollingOut, process.sentence()
	case Running:
	}
	if from.empty() {
		return AtRest, `Nothing is installed: ClusterAPI "cluster" does not exist.`
	}
	const removing = "All versions are being removed, because ClusterAPI \"cluster\" was deleted."
	if from.ClusterAPI == nil {
		return RollingOut, removing
	}
	cluster := from.ClusterAPI
	if !cluster.DeletionTimestamp.IsZero() {
		return stateOfUninstall(cluster, removing)
	}
	if stale(cluster) {
		return RollingOut, fmt.Sprintf("The installer has not observed generation %d of the spec yet.", cluster.Generation)
	}
	if cluster.Spec.InstallerMode == v1alpha1.Paused {
		return Paused, "The installer is paused. " + pausedAt(cluster)
	}
	if unread := cmp.Or(unreadRelease(from), unreported(cluster, process), unreadInput(from)); unread != "" {
		return RollingOut, unread
	}
	if from.platformDiffers() {
		return Blocked, fmt.Sprintf("The installer was started for platform %s; it reads platform %s in ConfigMap %s at its next start.",
			cluster.Status.ObservedRelease.Platform, from.Requested.Platform, from.Requested.ConfigMap)
	}
	if cause := blockedBy(cluster); cause != "" {
		return Blocked, cause
	}
	switch installer := meta.FindStatusCondition(cluster.Status.Conditions, installerProgressing); reason.Reason(installer.Reason) {
	case reason.PodsCrash:
		return NotWorking, target(cluster.Status) + " does not work: its pods crash."
	case reason.UnknownEntries:
		return Blocked, target(cluster.Status) + " is installed, but entries of the spec name nothing in it."
	}
	if progress := progressOf(cluster); progress != "" {
		return RollingOut, progress
	}
	if cluster.Status.CurrentVersion == "" {
		return AtRest, "Nothing is installed: " + meta.FindStatusCondition(cluster.Status.Conditions, available).Message + "."
	}
	summary := fmt.Sprintf("Version %s is installed", cluster.Status.CurrentVersion)
	if observed := cluster.Status.ObservedRelease; observed != nil && observed.Version != "" && observed.Version != revision.Release(cluster.Status.CurrentVersion) {
		summary += fmt.Sprintf("; release %s has the same content", observed.Version)
	}
	return AtRest, summary + "."
}

// stateOfUninstall returns the state of an uninstall. removing describes one in progress.
func stateOfUninstall(cluster *v1alpha1.ClusterAPI, removing string) (State, string) {
	if stale(cluster) {
		return RollingOut, "ClusterAPI \"cluster\" was deleted; the installer has not started to remove the versions yet."
	}
	if degraded := meta.FindStatusCondition(cluster.Status.Conditions, installerDegraded); degraded.Status == metav1.ConditionTrue {
		return Blocked, fmt.Sprintf("The uninstall is blocked: %s is True (%s).", installerDegraded, degraded.Reason)
	}
	return RollingOut, removing
}

// For returns the report of a user who waits for a release: it is not at rest while another one is installed. An empty release is
// the requested one. A release with the content of the installed version has no version of its own.
func (r Report) For(release string) Report {
	release = strings.TrimPrefix(release, "v")
	if release == "" || r.State != AtRest || cmp.Or(r.Release, revision.Release(r.Current)) == release {
		return r
	}
	r.State = RollingOut
	r.Summary = strings.TrimSuffix(r.Summary, ".") + fmt.Sprintf("; release %s has not been requested.", release)
	return r
}

// empty reports whether nothing is installed or desired.
func (s Snapshot) empty() bool { return s.ClusterAPI == nil && len(s.Revisions) == 0 }

// stale reports whether the status of a controller is older than the current spec.
func stale(cluster *v1alpha1.ClusterAPI) bool {
	for _, name := range []string{versionProgressing, versionDegraded, installerProgressing, installerDegraded} {
		condition := meta.FindStatusCondition(cluster.Status.Conditions, name)
		if condition == nil || condition.ObservedGeneration < cluster.Generation {
			return true
		}
	}
	return cluster.Status.ObservedGeneration < cluster.Generation
}

// unreadRelease returns a sentence about a requested release that the installer has not read yet; empty if it has. The kubelet
// updates a mounted ConfigMap up to 70 seconds after a change. A version of the installer that does not record what it has read
// reads everything at its next start.
func unreadRelease(from Snapshot) string {
	requested, observed := from.Requested, from.ClusterAPI.Status.ObservedRelease
	if requested == nil || observed != nil && requested.ImagesDigest == observed.ImagesDigest && (requested.Version == "" || requested.Version == observed.Version) {
		return ""
	}
	release := requested.Version
	if release == "" {
		release = string(requested.ImagesDigest)
	}
	return fmt.Sprintf("The installer has not read release %s from ConfigMap %s yet.", release, requested.ConfigMap)
}

// platformDiffers reports whether the ConfigMap of the release names other platforms than the ones that the installer was started with.
func (s Snapshot) platformDiffers() bool {
	if s.ClusterAPI == nil || s.ClusterAPI.Status.ObservedRelease == nil || s.Requested == nil {
		return false
	}
	is, want := s.ClusterAPI.Status.ObservedRelease.Platform, s.Requested.Platform
	return is != "" && want != "" && is != want
}

// unreported returns a sentence about a new process that has not written the status yet: it can have other arguments, or be of another
// release. It returns an empty string if the leader has, or if the status does not name its process.
func unreported(cluster *v1alpha1.ClusterAPI, process Process) string {
	if by := cluster.Status.ObservedBy; by == "" || process.Leader == "" || by == process.Leader {
		return ""
	}
	return fmt.Sprintf("Process %s of the installer has not reported yet.", process.Leader)
}

// unreadInput returns a sentence about an object that the installer has not read since its last change; empty if there is none.
func unreadInput(from Snapshot) string {
	seen := from.ClusterAPI.Status.ObservedInputs
	if len(seen) == 0 { // an installer that does not record them
		return ""
	}
	for _, input := range from.Inputs {
		if !slices.Contains(seen, input) {
			return fmt.Sprintf("The installer has not read %s %s yet.", input.Kind, strings.TrimPrefix(input.Namespace+"/"+input.Name, "/"))
		}
	}
	return ""
}

// blockedBy returns a sentence about a rollout that needs an administrator; empty
// if it does not.
func blockedBy(cluster *v1alpha1.ClusterAPI) string {
	target := target(cluster.Status)
	for _, name := range []string{versionDegraded, installerDegraded} {
		if condition := meta.FindStatusCondition(cluster.Status.Conditions, name); condition.Status == metav1.ConditionTrue {
			return fmt.Sprintf("%s is blocked: %s is True (%s).", target, name, condition.Reason)
		}
	}
	for _, version := range slices.Backward(cluster.Status.Versions) {
		for _, phase := range version.Phases {
			if phase.State == v1alpha1.PhaseBlocked {
				return fmt.Sprintf("Version %s is blocked in phase %s.", version.Name, phase.Name)
			}
		}
	}
	return ""
}

// pausedAt returns a sentence about the state in which the installer is paused.
func pausedAt(cluster *v1alpha1.ClusterAPI) string {
	if !cluster.Status.Settled() {
		return target(cluster.Status) + " is not installed."
	}
	if older := older(cluster.Status); older != "" {
		return fmt.Sprintf("Version %s is not removed.", older)
	}
	return cmp.Or(blockedBy(cluster), progressOf(cluster), fmt.Sprintf("Version %s is installed.", cluster.Status.CurrentVersion))
}

// target names the desired version for a sentence.
func target(status v1alpha1.ClusterAPIStatus) string {
	if status.DesiredVersion == "" {
		return "The first version"
	}
	return "Version " + status.DesiredVersion
}

// progressOf returns a sentence about a rollout in progress; empty if it is
// complete.
func progressOf(cluster *v1alpha1.ClusterAPI) string {
	status := cluster.Status
	desired := status.Version(status.DesiredVersion)
	if desired == nil && isUnsupported(cluster) {
		return ""
	}
	if desired == nil {
		return "No version exists yet."
	}
	objects, ready, incomplete := int32(0), int32(0), false
	for _, phase := range desired.Phases {
		objects, ready = objects+phase.Objects, ready+phase.Ready
		incomplete = incomplete || phase.State != v1alpha1.PhaseComplete
	}
	if status.Settled() && incomplete {
		return fmt.Sprintf("Version %s is installed, but only %d of %d objects are ready.", desired.Name, ready, objects)
	}
	if !status.Settled() && objects == 0 {
		return fmt.Sprintf("Version %s is being prepared: the installer has not applied its first phase yet.", desired.Name)
	}
	if !status.Settled() {
		return fmt.Sprintf("Version %s is being rolled out: %d of %d objects are ready.", desired.Name, ready, objects)
	}
	if older := older(status); older != "" {
		return fmt.Sprintf("Version %s is installed; version %s is being removed.", desired.Name, older)
	}
	if unsettled := unsettled(status.Conditions); unsettled != nil {
		return fmt.Sprintf("Version %s is installed; %s is %s (%s).", desired.Name, unsettled.Type, unsettled.Status, unsettled.Reason)
	}
	return ""
}

// isUnsupported reports whether both controllers have found that Cluster API is not supported on the cluster's platform.
func isUnsupported(cluster *v1alpha1.ClusterAPI) bool {
	for _, name := range []string{available, versionProgressing, installerProgressing} {
		if condition := meta.FindStatusCondition(cluster.Status.Conditions, name); condition == nil || condition.Reason != string(reason.UnsupportedPlatform) {
			return false
		}
	}
	return true
}

// older returns the oldest version that must still be removed; empty if there is
// none.
func older(status v1alpha1.ClusterAPIStatus) string {
	for _, version := range status.Versions {
		if version.Name != status.DesiredVersion && version.Name != status.CurrentVersion {
			return version.Name
		}
	}
	return ""
}

// unsettled returns a condition that shows that a controller is still working or
// retrying; nil if there is none.
func unsettled(conditions []metav1.Condition) *metav1.Condition {
	settled := map[string]metav1.ConditionStatus{
		versionProgressing: metav1.ConditionFalse, versionDegraded: metav1.ConditionFalse,
		installerProgressing: metav1.ConditionFalse, installerDegraded: metav1.ConditionFalse, available: metav1.ConditionTrue,
	}
	for i := range conditions {
		if want, known := settled[conditions[i].Type]; known && conditions[i].Status != want {
			return &conditions[i]
		}
	}
	return nil
}

// StateError reports a rollout that is not at rest, for the exit code.
type StateError struct {
	State State
	// Message is empty if the report explains the state.
	Message string
}

func (e *StateError) Error() string { return e.Message }
