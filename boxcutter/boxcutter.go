// SPDX-License-Identifier: Apache-2.0

// Package boxcutter installs sets of objects revision by revision and phase by
// phase, and removes them again.
//
// Make a RevisionEngine with NewRevisionEngine, describe what is wanted with
// NewRevision and NewPhase, and call Reconcile until its result is complete. An
// older revision is removed with Teardown, also called until its result is
// complete. Both only take the next step and never wait.
//
// This package gathers the names that are needed for that. The parts are in
// package machinery (the engines and their results), machinery/types (revisions,
// phases and options), ownerhandling (how an object names its owner), probing
// (when an object is ready), validation (what is refused before anything is
// written) and managedcache (caches for the kinds in use).
package boxcutter

import (
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
)

// Revision is one state of the world to be reached phase by phase.
type Revision = types.Revision

// RevisionBuilder is a Revision to which options can be added.
type RevisionBuilder = types.RevisionBuilder

// NewRevision makes a revision of the given phases.
var NewRevision = types.NewRevision

// NewRevisionWithOwner makes a revision whose objects belong to an owner.
var NewRevisionWithOwner = types.NewRevisionWithOwner

// NewRevisionWithOwnerAndSiblings makes a revision whose objects belong to an
// owner and may be taken over from its siblings.
var NewRevisionWithOwnerAndSiblings = types.NewRevisionWithOwnerAndSiblings

// Phase is a named list of objects that are reconciled together.
type Phase = types.Phase

// PhaseBuilder is a Phase to which options can be added.
type PhaseBuilder = types.PhaseBuilder

// NewPhase makes a phase of the given objects.
var NewPhase = types.NewPhase

// NewPhaseWithOwner makes a phase whose objects belong to an owner.
var NewPhaseWithOwner = types.NewPhaseWithOwner

// NewPhaseWithOwnerAndSiblings makes a phase whose objects belong to an owner
// and may be taken over from its siblings.
var NewPhaseWithOwnerAndSiblings = types.NewPhaseWithOwnerAndSiblings

// ObjectReconcileOption is an option for reconciling an object, a phase or a revision.
type ObjectReconcileOption = types.ObjectReconcileOption

// ObjectTeardownOption is an option for tearing down an object, a phase or a revision.
type ObjectTeardownOption = types.ObjectTeardownOption

// PhaseReconcileOption is an option for reconciling a phase or a revision.
type PhaseReconcileOption = types.PhaseReconcileOption

// PhaseTeardownOption is an option for tearing down a phase or a revision.
type PhaseTeardownOption = types.PhaseTeardownOption

// RevisionReconcileOption is an option for RevisionEngine.Reconcile.
type RevisionReconcileOption = types.RevisionReconcileOption

// RevisionTeardownOption is an option for RevisionEngine.Teardown.
type RevisionTeardownOption = types.RevisionTeardownOption

// WithSiblingOwnerClassifier sets how the owners of other revisions are known.
type WithSiblingOwnerClassifier = types.WithSiblingOwnerClassifier

// WithSiblingOwners takes the given objects for siblings, by their UIDs.
var WithSiblingOwners = types.WithSiblingOwners

// WithSiblingOwnerRefs takes the given references for siblings, by their UIDs.
var WithSiblingOwnerRefs = types.WithSiblingOwnerRefs

const (
	// CollisionProtectionPrevent never takes over an object.
	CollisionProtectionPrevent = types.CollisionProtectionPrevent

	// CollisionProtectionIfNoController takes over objects without a controller.
	CollisionProtectionIfNoController = types.CollisionProtectionIfNoController

	// CollisionProtectionNone takes over objects from whoever has them.
	CollisionProtectionNone = types.CollisionProtectionNone
)

// WithCollisionProtection sets when objects of others are taken over.
type WithCollisionProtection = types.WithCollisionProtection

// WithPaused reports what would be done and writes nothing.
type WithPaused = types.WithPaused

// WithAggregatePhaseReconcileErrors has all objects of a phase tried and their
// errors joined.
var WithAggregatePhaseReconcileErrors = types.WithAggregatePhaseReconcileErrors

// WithAggregatePhaseTeardownErrors has all objects of a phase tried and their
// errors joined.
var WithAggregatePhaseTeardownErrors = types.WithAggregatePhaseTeardownErrors

// Prober says whether an object is in the state somebody waits for.
type Prober = types.Prober

// ProbeFunc makes a function a Prober.
var ProbeFunc = types.ProbeFunc

// WithProbe registers a probe under a type, in place of one registered before.
var WithProbe = types.WithProbe

// WithObjectReconcileOptions sets options for one object of a phase.
var WithObjectReconcileOptions = types.WithObjectReconcileOptions

// WithObjectTeardownOptions sets options for one object of a phase.
var WithObjectTeardownOptions = types.WithObjectTeardownOptions

// WithPhaseReconcileOptions sets options for one phase of a revision.
var WithPhaseReconcileOptions = types.WithPhaseReconcileOptions

// WithPhaseTeardownOptions sets options for one phase of a revision.
var WithPhaseTeardownOptions = types.WithPhaseTeardownOptions

// WithOwner has objects belong to an owner.
var WithOwner = types.WithOwner

// ProgressProbeType is the type of the probe that decides whether an object is
// complete.
const ProgressProbeType = types.ProgressProbeType

// OwnerStrategy reads and writes who owns an object.
type OwnerStrategy = types.OwnerStrategy

// RevisionEngine reconciles and tears down revisions.
type RevisionEngine = machinery.RevisionEngine
