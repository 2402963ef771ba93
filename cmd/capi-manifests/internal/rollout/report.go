// SPDX-License-Identifier: Apache-2.0

// Package rollout computes the report of capi-manifests status from the objects of a
// cluster, and writes it as text, lines or HTML. Only a screen reads the clock.
package rollout

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/install/history"
)

// Snapshot holds the objects that the report is computed from.
type Snapshot struct {
	// ClusterAPI is the object "cluster"; nil if it does not exist.
	ClusterAPI *v1alpha1.ClusterAPI
	// Revisions are the names of the revision ConfigMaps. They are only used without a ClusterAPI object.
	Revisions []string
	// Events are the events about the ClusterAPI object, in any order.
	Events []corev1.Event
	// RetainedCRDs are the names of the CRDs that were retained when their version
	// was removed.
	RetainedCRDs []string
	// Installer are the objects that run the installer.
	Installer InstallerObjects
	// Requested is the release in the ConfigMap that the Deployment mounts; nil without either.
	Requested *RequestedRelease
	// Inputs are the present versions of the other objects that the installer reads, except objects that may not be read. They are only
	// used at rest.
	Inputs []v1alpha1.ObservedInput
	// History is the record of the versions that were installed, oldest first.
	History []history.Entry
	// Cluster names the cluster; nil if that is not of interest.
	Cluster *Cluster
	// Time is the time of the snapshot: a lease ends without an event.
	Time time.Time
}

// The keys of the ConfigMap with the release.
const (
	ImagesKey   = "images.json"
	VersionKey  = "release-version"
	PlatformKey = "platform"
)

// Cluster names a cluster as its user knows it.
type Cluster struct {
	// Context is the context of the kubeconfig; empty if there is none.
	Context string `json:"context,omitempty"`
	// Server is the URL of the API server.
	Server string `json:"server"`
}

// RequestedRelease is the release that an administrator, or the cluster version operator, has requested.
type RequestedRelease struct {
	// ConfigMap is the name of the ConfigMap with its namespace.
	ConfigMap string
	// ImagesJSON is the text of its images.json.
	ImagesJSON string
	v1alpha1.ObservedRelease
}

// State is the state of the whole rollout.
type State string

// The states of a rollout.
const (
	// AtRest: the desired version is installed, or no version is installed or desired.
	AtRest State = "AtRest"
	// RollingOut: versions are being installed or removed, or an error is being retried.
	RollingOut State = "RollingOut"
	// Blocked: the rollout needs an action of an administrator.
	Blocked State = "Blocked"
	// NotWorking: pods of a version crash again and again.
	NotWorking State = "NotWorking"
	// Paused: spec.installerMode is Paused, and the installer writes nothing.
	Paused State = "Paused"
)

// Report is the data of status, as in schema/status.json.
type Report struct {
	// Schema is schema.Status.
	Schema string `json:"$schema"`
	State  State  `json:"state"`
	// Summary is the state in one sentence.
	Summary string `json:"summary"`
	// Cluster is the cluster of the report.
	Cluster *Cluster `json:"cluster,omitempty"`
	// LastRolloutSeconds is the duration of the last complete rollout of another version; 0 if it is not known.
	LastRolloutSeconds int64 `json:"lastRolloutSeconds,omitempty"`
	// Installer is the state of the installer itself.
	Installer Process `json:"installer"`
	// Mode is spec.installerMode; empty without a ClusterAPI object.
	Mode string `json:"mode,omitempty"`
	// Current is the version that was last installed completely; empty if there is none.
	Current string `json:"currentVersion,omitempty"`
	// Release is the release that the installer has read last; empty if it is not known.
	Release string `json:"release,omitempty"`
	// Desired is the version that should be installed; empty if there is none.
	Desired string `json:"desiredVersion,omitempty"`
	// Versions are the versions in the status, newest first.
	Versions []Version `json:"versions"`
	// Conditions are the conditions of the ClusterAPI object.
	Conditions []metav1.Condition `json:"conditions"`
	// NextSteps are the next steps for the conditions, most urgent first.
	NextSteps []Step `json:"nextSteps"`
	// Drift are the reverted external changes whose events the API server still
	// has, newest first.
	Drift []Reverted `json:"drift"`
	// RetainedCRDs are the CRDs that were retained when their version was removed,
	// sorted.
	RetainedCRDs []string `json:"retainedCRDs"`
	// UnmanagedCRDs are spec.unmanagedCRDs.
	UnmanagedCRDs []string `json:"unmanagedCRDs"`
	// Overrides are spec.imageOverrides.
	Overrides []v1alpha1.ImageOverride `json:"imageOverrides"`
	// Signatures are status.signatureVerdicts: none are recorded by an installer that does not know them.
	Signatures []v1alpha1.SignatureVerdict `json:"signatureVerdicts"`
}

// Role is the role of a version in the rollout.
type Role string

// The roles of versions.
const (
	// Installed is the current version.
	Installed Role = "Installed"
	// Desired is the version that is being installed.
	Desired Role = "Desired"
	// Removing is a version whose objects are being deleted.
	Removing Role = "Removing"
	// Replaced is a version that waits for its teardown.
	Replaced Role = "Replaced"
)

// Version is an entry of status.versions with its progress.
type Version struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Started is the time when the version became the desired one; zero if it is not known.
	Started metav1.Time `json:"started,omitzero"`
	// InstalledAs is the version that the objects name as their owner, if it is
	// another one.
	InstalledAs string               `json:"installedAs,omitempty"`
	Components  []v1alpha1.Component `json:"components"`
	Phases      []v1alpha1.Phase     `json:"phases"`
	// Objects and Ready are the sums over all phases.
	Objects int32 `json:"objects"`
	Ready   int32 `json:"ready"`
}

// Step is the next step for a condition.
type Step struct {
	// Condition, Status and Reason identify the condition; empty if the step has another origin.
	Condition string                 `json:"condition,omitempty"`
	Status    metav1.ConditionStatus `json:"status,omitempty"`
	Reason    string                 `json:"reason,omitempty"`
	// Since is the time of the last transition of the condition; zero without a condition.
	Since metav1.Time `json:"since,omitzero"`
	// Cause is the message of the condition.
	Cause string `json:"cause,omitempty"`
	// Action is the next step, as docs/conditions.md describes it.
	Action string `json:"action"`
}

// Reverted is an event about reverted drift.
type Reverted struct {
	Time    metav1.Time `json:"time"`
	Message string      `json:"message"`
}

// driftCorrected is the reason of events about reverted drift.
const driftCorrected = "DriftCorrected"

// New returns the report of a snapshot.
func New(from Snapshot) Report {
	cluster := from.ClusterAPI
	if cluster == nil {
		cluster = &v1alpha1.ClusterAPI{}
	}
	process := processOf(from.Installer, from.Time)
	report := Report{
		Schema: schema.Status, Installer: process, Mode: string(cluster.Spec.InstallerMode),
		Current: cluster.Status.CurrentVersion, Desired: cluster.Status.DesiredVersion,
		Cluster: from.Cluster, LastRolloutSeconds: lastRollout(from.History, cluster.Status.DesiredVersion),
		Versions: versionsOf(cluster.Status, from.History), Conditions: orEmpty(cluster.Status.Conditions), NextSteps: orEmpty(stepsOf(from, process)),
		Drift: driftOf(from.Events, cluster.CreationTimestamp), RetainedCRDs: orEmpty(slices.Sorted(slices.Values(from.RetainedCRDs))),
		UnmanagedCRDs: orEmpty(cluster.Spec.UnmanagedCRDs), Overrides: orEmpty(cluster.Spec.ImageOverrides),
		Signatures: orEmpty(cluster.Status.SignatureVerdicts),
	}
	if observed := cluster.Status.ObservedRelease; observed != nil {
		report.Release = observed.Version
	}
	report.State, report.Summary = stateOf(from, process)
	return report
}

// orEmpty returns an empty list for nil, so that the JSON has a list.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// lastRollout returns the duration of the last complete rollout of another version than the desired one, in seconds.
func lastRollout(entries []history.Entry, desired string) int64 {
	for _, entry := range slices.Backward(entries) {
		if entry.Version != desired && entry.Result == history.Installed {
			return int64(entry.Ended.Sub(entry.Started.Time).Seconds())
		}
	}
	return 0
}

func versionsOf(status v1alpha1.ClusterAPIStatus, entries []history.Entry) []Version {
	versions := []Version{}
	for _, from := range slices.Backward(status.Versions) {
		version := Version{
			Name: from.Name, Role: roleOf(from, status), InstalledAs: from.InstalledAs,
			Components: orEmpty(from.Components), Phases: orEmpty(from.Phases),
		}
		for _, entry := range entries {
			if entry.Version == from.Name {
				version.Started = entry.Started
			}
		}
		for _, phase := range from.Phases {
			version.Objects += phase.Objects
			version.Ready += phase.Ready
		}
		versions = append(versions, version)
	}
	return versions
}

func roleOf(version v1alpha1.Version, status v1alpha1.ClusterAPIStatus) Role {
	switch {
	case version.Name == status.CurrentVersion:
		return Installed
	case version.Name == status.DesiredVersion:
		return Desired
	case slices.ContainsFunc(version.Phases, isRemoved):
		return Removing
	default:
		return Replaced
	}
}

// driftOf returns the events about drift since the ClusterAPI object exists: others are about an earlier installation.
func driftOf(events []corev1.Event, since metav1.Time) []Reverted {
	drift := []Reverted{}
	for i := range events {
		if at := timeOf(&events[i]); events[i].Reason == driftCorrected && !at.Before(&since) {
			drift = append(drift, Reverted{Time: at, Message: events[i].Message})
		}
	}
	slices.SortStableFunc(drift, func(a, b Reverted) int {
		return cmp.Or(b.Time.Compare(a.Time.Time), cmp.Compare(a.Message, b.Message))
	})
	return drift
}

// timeOf returns the time of the last occurrence of an event, in seconds.
func timeOf(event *corev1.Event) metav1.Time {
	for _, at := range []time.Time{event.LastTimestamp.Time, event.EventTime.Time} {
		if !at.IsZero() {
			return metav1.NewTime(at.Truncate(time.Second))
		}
	}
	return event.CreationTimestamp
}
