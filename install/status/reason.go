// SPDX-License-Identifier: Apache-2.0

package status

// Reason is why a controller is in the state it is in: the reason of its conditions.
type Reason string

// The reasons of both controllers. docs/conditions.md explains each to an administrator.
const (
	// AsExpected: everything is as it should be.
	AsExpected Reason = "AsExpected"
	// Paused: spec.installerMode is Paused; nothing is written.
	Paused Reason = "Paused"

	// PlatformUnknown: the cluster's platform is not known yet.
	PlatformUnknown Reason = "PlatformUnknown"
	// ImagesInvalid: images.json or spec.imageOverrides cannot be used.
	ImagesInvalid Reason = "ImagesInvalid"
	// ReleaseMismatch: images.json is of another release than the program.
	ReleaseMismatch Reason = "ReleaseMismatch"
	// TransportIncomplete: slices of transport ConfigMaps are not there, or only those of another release.
	TransportIncomplete Reason = "TransportIncomplete"
	// TransportUnguarded: transport ConfigMaps cannot be trusted, because their admission policy is missing or altered.
	TransportUnguarded Reason = "TransportUnguarded"
	// ImageUnreadable: the bundle of an image is not known because it cannot be pulled.
	ImageUnreadable Reason = "ImageUnreadable"
	// BundleInvalid: an image holds something that is not a valid bundle.
	BundleInvalid Reason = "BundleInvalid"
	// ComponentMissing: a required provider is not among the images, or is there twice.
	ComponentMissing Reason = "ComponentMissing"
	// RenderFailed: the manifests of the providers cannot be made into objects.
	RenderFailed Reason = "RenderFailed"
	// TooManyRevisions: there is no room for another version before an older one, which still has objects, is gone.
	TooManyRevisions Reason = "TooManyRevisions"
	// RetiringRevisions: versions that are no longer wanted are being removed.
	RetiringRevisions Reason = "RetiringRevisions"
	// WriteFailed: the decision could not be written to the API server.
	WriteFailed Reason = "WriteFailed"

	// NoRevision: no version has been decided yet.
	NoRevision Reason = "NoRevision"
	// RollingOut: the desired version is being installed.
	RollingOut Reason = "RollingOut"
	// RevisionUnreadable: the stored objects of a version are missing or damaged.
	RevisionUnreadable Reason = "RevisionUnreadable"
	// CheckerAbsent: nothing in the cluster can tell whether unmanaged CRDs are compatible.
	CheckerAbsent Reason = "CheckerAbsent"
	// Incompatible: an unmanaged CRD is not compatible with a provider.
	Incompatible Reason = "Incompatible"
	// Collision: an object exists already and belongs to somebody else.
	Collision Reason = "Collision"
	// ObjectsRefused: the API server refuses objects of a phase; nothing of it was written.
	ObjectsRefused Reason = "ObjectsRefused"
	// ApplyFailed: the API server could not be asked, or failed.
	ApplyFailed Reason = "ApplyFailed"
	// TearingDown: objects of an older version are being removed.
	TearingDown Reason = "TearingDown"
	// Uninstalling: the ClusterAPI object is deleted, and everything is being removed.
	Uninstalling Reason = "Uninstalling"
	// Uninstalled: there is no ClusterAPI object, and nothing is installed.
	Uninstalled Reason = "Uninstalled"
)

// severity says what a reason means for the conditions.
type severity int

const (
	settled  severity = iota // nothing to do
	working                  // on the way, without an error
	retrying                 // an error that may pass by itself: Degraded after a while
	terminal                 // an error that somebody must mend: Degraded at once
)

var severities = map[Reason]severity{
	AsExpected:          settled,
	Paused:              settled,
	Uninstalled:         settled,
	PlatformUnknown:     working,
	RetiringRevisions:   working,
	NoRevision:          working,
	RollingOut:          working,
	TearingDown:         working,
	Uninstalling:        working,
	CheckerAbsent:       working,
	ReleaseMismatch:     retrying,
	TransportIncomplete: retrying,
	TransportUnguarded:  retrying,
	ImageUnreadable:     retrying,
	TooManyRevisions:    retrying,
	WriteFailed:         retrying,
	ApplyFailed:         retrying,
	ImagesInvalid:       terminal,
	BundleInvalid:       terminal,
	ComponentMissing:    terminal,
	RenderFailed:        terminal,
	RevisionUnreadable:  retrying,
	Incompatible:        terminal,
	Collision:           terminal,
	ObjectsRefused:      terminal,
}
