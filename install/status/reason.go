// SPDX-License-Identifier: Apache-2.0

package status

// Reason is the state of a controller and the reason of its conditions.
type Reason string

// The reasons of both controllers. docs/conditions.md explains each to an administrator.
const (
	// AsExpected: the desired state is reached.
	AsExpected Reason = "AsExpected"
	// Paused: spec.installerMode is Paused; nothing is written.
	Paused Reason = "Paused"

	// PlatformUnknown: the cluster's platform is not known yet.
	PlatformUnknown Reason = "PlatformUnknown"
	// ImagesInvalid: images.json or spec.imageOverrides cannot be used.
	ImagesInvalid Reason = "ImagesInvalid"
	// ReleaseMismatch: images.json belongs to another release than the program.
	ReleaseMismatch Reason = "ReleaseMismatch"
	// TransportIncomplete: slices of transport ConfigMaps are missing, or belong to another release.
	TransportIncomplete Reason = "TransportIncomplete"
	// TransportUnguarded: transport ConfigMaps are ignored, because their admission policy is missing or modified.
	TransportUnguarded Reason = "TransportUnguarded"
	// ImageUnreadable: an image cannot be pulled.
	ImageUnreadable Reason = "ImageUnreadable"
	// ImageUntrusted: no signature policy accepts an image, or its signatures cannot be checked.
	ImageUntrusted Reason = "ImageUntrusted"
	// BundleInvalid: an image contains an invalid bundle.
	BundleInvalid Reason = "BundleInvalid"
	// ComponentMissing: a required provider is missing, or defined twice.
	ComponentMissing Reason = "ComponentMissing"
	// RenderFailed: the manifests of the providers cannot be rendered.
	RenderFailed Reason = "RenderFailed"
	// TooManyRevisions: the limit of versions is reached, and each older version still controls objects.
	TooManyRevisions Reason = "TooManyRevisions"
	// RetiringRevisions: older versions are being removed.
	RetiringRevisions Reason = "RetiringRevisions"
	// WriteFailed: reading from or writing to the API server failed.
	WriteFailed Reason = "WriteFailed"

	// NoRevision: the version controller has not created a version yet.
	NoRevision Reason = "NoRevision"
	// RollingOut: the desired version is being installed.
	RollingOut Reason = "RollingOut"
	// ProgressDeadlineExceeded: the desired version is being installed, without progress for 30 minutes.
	ProgressDeadlineExceeded Reason = "ProgressDeadlineExceeded"
	// RevisionUnreadable: the stored objects of a version are missing or damaged.
	RevisionUnreadable Reason = "RevisionUnreadable"
	// CheckerAbsent: the cluster has the CRD of CompatibilityRequirement, but does not serve it yet.
	CheckerAbsent Reason = "CheckerAbsent"
	// Incompatible: an unmanaged CRD is not compatible with a provider.
	Incompatible Reason = "Incompatible"
	// Collision: an object already exists and belongs to another owner.
	Collision Reason = "Collision"
	// ObjectsRefused: the API server rejects objects of a phase; no object of the phase was written.
	ObjectsRefused Reason = "ObjectsRefused"
	// ObjectsForbidden: the API server forbids to write objects of a phase; no object of the phase was written.
	ObjectsForbidden Reason = "ObjectsForbidden"
	// ApplyFailed: a request to the API server failed.
	ApplyFailed Reason = "ApplyFailed"
	// TearingDown: objects of an older version are being removed.
	TearingDown Reason = "TearingDown"
	// Uninstalling: the ClusterAPI object is deleted, and everything is being removed.
	Uninstalling Reason = "Uninstalling"
	// Uninstalled: the ClusterAPI object does not exist, and nothing is installed.
	Uninstalled Reason = "Uninstalled"
)

// severity is the effect of a reason on the conditions.
type severity int

const (
	settled    severity = iota // nothing to do
	inProgress                 // in progress, without an error
	retryable                  // Degraded after Inertia
	terminal                   // a user must act: Degraded immediately
)

var severities = map[Reason]severity{
	AsExpected:               settled,
	Paused:                   settled,
	Uninstalled:              settled,
	PlatformUnknown:          inProgress,
	RetiringRevisions:        inProgress,
	NoRevision:               inProgress,
	RollingOut:               inProgress,
	TearingDown:              inProgress,
	Uninstalling:             inProgress,
	CheckerAbsent:            inProgress,
	ReleaseMismatch:          retryable,
	TransportIncomplete:      retryable,
	TransportUnguarded:       retryable,
	ImageUnreadable:          retryable,
	TooManyRevisions:         retryable,
	WriteFailed:              retryable,
	ApplyFailed:              retryable,
	ObjectsForbidden:         retryable,
	ImagesInvalid:            terminal,
	ImageUntrusted:           terminal, // retryable if Outcome.Undecided
	BundleInvalid:            terminal,
	ComponentMissing:         terminal,
	RenderFailed:             terminal,
	RevisionUnreadable:       retryable,
	Incompatible:             terminal,
	Collision:                terminal,
	ObjectsRefused:           terminal,
	ProgressDeadlineExceeded: terminal,
}
