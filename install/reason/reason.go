// SPDX-License-Identifier: Apache-2.0

// Package reason is the table of the reasons of conditions: their severity, their
// message, the next step of an administrator, and their explanation. The controllers,
// capi-manifests status and docs/conditions.md read it.
package reason

//go:generate env UPDATE=1 go test -count=1 -run TestDocument_UpToDate .

import (
	"strings"
	"time"
)

// Reason is the state of a controller, or of the operator, and the reason of its
// conditions.
type Reason string

// The reasons. The table explains each.
const (
	AsExpected  Reason = "AsExpected"
	RollingOut  Reason = "RollingOut"
	WriteFailed Reason = "WriteFailed"

	PlatformUnknown     Reason = "PlatformUnknown"
	UnsupportedPlatform Reason = "UnsupportedPlatform"
	ImagesInvalid       Reason = "ImagesInvalid"
	ReleaseMismatch     Reason = "ReleaseMismatch"
	TransportIncomplete Reason = "TransportIncomplete"
	TransportUnguarded  Reason = "TransportUnguarded"
	ImageUnreadable     Reason = "ImageUnreadable"
	ImageUntrusted      Reason = "ImageUntrusted"
	BundleInvalid       Reason = "BundleInvalid"
	ComponentMissing    Reason = "ComponentMissing"
	RenderFailed        Reason = "RenderFailed"
	SettingsInvalid     Reason = "SettingsInvalid"
	ReferenceMissing    Reason = "ReferenceMissing"
	TooManyRevisions    Reason = "TooManyRevisions"
	RetiringRevisions   Reason = "RetiringRevisions"

	NoRevision               Reason = "NoRevision"
	Paused                   Reason = "Paused"
	UnknownEntries           Reason = "UnknownEntries"
	PodsCrash                Reason = "PodsCrash"
	PodsNotReady             Reason = "PodsNotReady"
	ProgressDeadlineExceeded Reason = "ProgressDeadlineExceeded"
	RevisionUnreadable       Reason = "RevisionUnreadable"
	CheckerAbsent            Reason = "CheckerAbsent"
	Incompatible             Reason = "Incompatible"
	Collision                Reason = "Collision"
	RiskNotAccepted          Reason = "RiskNotAccepted"
	ObjectsRefused           Reason = "ObjectsRefused"
	ObjectsForbidden         Reason = "ObjectsForbidden"
	InstancesUnreadable      Reason = "InstancesUnreadable"
	Contested                Reason = "Contested"
	ApplyFailed              Reason = "ApplyFailed"
	TearingDown              Reason = "TearingDown"
	Uninstalling             Reason = "Uninstalling"
	UninstallBlocked         Reason = "UninstallBlocked"
	Uninstalled              Reason = "Uninstalled"

	NotInstalled         Reason = "NotInstalled"
	PredecessorInstalled Reason = "PredecessorInstalled"
	NotWorking           Reason = "NotWorking"
	ImageOverrides       Reason = "ImageOverrides"
	InstallerPaused      Reason = "InstallerPaused"
)

// Severity is the effect of a reason on the conditions.
type Severity int

// The severities, in ascending order.
const (
	// Settled: nothing to do.
	Settled Severity = iota
	// InProgress: in progress, without an error.
	InProgress
	// Retryable: an error that may end by itself; Degraded after a delay.
	Retryable
	// Terminal: an administrator must act; Degraded immediately.
	Terminal
)

// Subject is the writer of a reason.
type Subject string

// The subjects: both controllers, one of them, or the conditions Available and Upgradeable of the operator.
const (
	Both      Subject = "both controllers"
	Version   Subject = "version controller"
	Installer Subject = "installer controller"
	Operator  Subject = "operator"
)

// Entry is everything that is known of a reason.
type Entry struct {
	Reason   Reason
	Subject  Subject
	Severity Severity
	// Meaning explains the reason, in sentences of Markdown.
	Meaning string
	// Step is the next step of an administrator: a clause of Markdown without a full stop; empty if there is none.
	Step string
	// Refers is true if the step is to wait, or to read other conditions. They have steps of their own.
	Refers bool
	// Message is the message of a condition whose writer has none; empty if every writer has one.
	Message string
	// Recheck is the time between reconciles while no event is expected, because another
	// actor must change something that the installer does not watch; 0 if an event follows.
	Recheck time.Duration
}

// Of returns the entry of a reason; the zero value for an unknown one.
func Of(reason Reason) Entry { return byReason[reason] }

// All returns all entries, in the order of the documentation.
func All() []Entry { return table }

// NextStep returns the next step as the end of a message, without markup; empty if there
// is none. It says so if the installer retries.
func (e Entry) NextStep() string {
	step := strings.ReplaceAll(e.Step, "`", "")
	if step != "" && (e.Severity == Retryable || e.Recheck > 0) {
		step += "; the installer retries"
	}
	return step
}

// Action returns the next step as a sentence without markup; empty if there is none.
func (e Entry) Action() string {
	if e.Step == "" {
		return ""
	}
	return strings.ToUpper(e.Step[:1]) + strings.ReplaceAll(e.Step[1:], "`", "") + "."
}

// WithStep returns the message of an error: its cause, and the next step.
func (e Entry) WithStep(cause string) string {
	cause = strings.TrimRight(cause, ".; \n")
	if step := e.NextStep(); step != "" {
		return cause + "; " + step
	}
	return cause
}

// WithoutStep returns the cause in a message of WithStep. A message of another version of
// the installer may name another step; it is returned as it is.
func (e Entry) WithoutStep(message string) string {
	if step := e.NextStep(); step != "" {
		return strings.TrimSuffix(message, "; "+step)
	}
	return message
}
