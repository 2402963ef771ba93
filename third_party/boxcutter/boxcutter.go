// SPDX-License-Identifier: Apache-2.0

// Package boxcutter rolls out sets of objects in numbered revisions, phase by
// phase, and removes old revisions.
//
// NewRevisionEngine returns an engine; NewRevision and NewPhase describe the desired
// objects. Call Reconcile until its result is complete. To remove an older revision,
// call Teardown until its result is complete. Each call takes one step and returns
// without waiting for progress.
//
// This package has the names that most programs need. The packages are machinery
// (engines and their results), machinery/types (revisions, phases and options),
// ownerhandling (owners of objects), probing (readiness of objects), validation
// (checks before any write) and managedcache (caches for kinds that are known at
// run time).
package boxcutter

import (
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
)

// Revision is a desired state that is rolled out phase by phase.
type Revision = types.Revision

// RevisionBuilder is a Revision that takes options.
type RevisionBuilder = types.RevisionBuilder

// NewRevision returns a revision of the given phases.
var NewRevision = types.NewRevision

// NewRevisionWithOwner returns a revision whose objects belong to an owner.
var NewRevisionWithOwner = types.NewRevisionWithOwner

// NewRevisionWithOwnerAndSiblings returns a revision whose objects belong to an
// owner and may be adopted from its siblings.
var NewRevisionWithOwnerAndSiblings = types.NewRevisionWithOwnerAndSiblings

// Phase is a named list of objects that are reconciled together.
type Phase = types.Phase

// PhaseBuilder is a Phase that takes options.
type PhaseBuilder = types.PhaseBuilder

// NewPhase returns a phase of the given objects.
var NewPhase = types.NewPhase

// NewPhaseWithOwner returns a phase whose objects belong to an owner.
var NewPhaseWithOwner = types.NewPhaseWithOwner

// NewPhaseWithOwnerAndSiblings returns a phase whose objects belong to an owner
// and may be adopted from its siblings.
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

// WithSiblingOwnerClassifier sets the function that reports whether an owner is
// the owner of another revision.
type WithSiblingOwnerClassifier = types.WithSiblingOwnerClassifier

// WithSiblingOwners classifies the given objects as siblings, by their UIDs.
var WithSiblingOwners = types.WithSiblingOwners

// WithSiblingOwnerRefs classifies the given references as siblings, by their UIDs.
var WithSiblingOwnerRefs = types.WithSiblingOwnerRefs

const (
	// CollisionProtectionPrevent never adopts an object.
	CollisionProtectionPrevent = types.CollisionProtectionPrevent

	// CollisionProtectionIfNoController adopts objects that have no controller.
	CollisionProtectionIfNoController = types.CollisionProtectionIfNoController

	// CollisionProtectionNone adopts objects from any other controller.
	CollisionProtectionNone = types.CollisionProtectionNone
)

// WithCollisionProtection selects which existing objects may be adopted.
type WithCollisionProtection = types.WithCollisionProtection

// WithPaused reports the actions without writing anything.
type WithPaused = types.WithPaused

// WithAggregatePhaseReconcileErrors tries all objects of a phase and joins their
// errors.
var WithAggregatePhaseReconcileErrors = types.WithAggregatePhaseReconcileErrors

// WithAggregatePhaseTeardownErrors tries all objects of a phase and joins their
// errors.
var WithAggregatePhaseTeardownErrors = types.WithAggregatePhaseTeardownErrors

// Prober checks the state of an object.
type Prober = types.Prober

// ProbeFunc returns a Prober that calls a function.
var ProbeFunc = types.ProbeFunc

// WithProbe registers a probe of a type and replaces an earlier one.
var WithProbe = types.WithProbe

// WithObjectReconcileOptions sets options for one object of a phase.
var WithObjectReconcileOptions = types.WithObjectReconcileOptions

// WithObjectTeardownOptions sets options for one object of a phase.
var WithObjectTeardownOptions = types.WithObjectTeardownOptions

// WithPhaseReconcileOptions sets options for one phase of a revision.
var WithPhaseReconcileOptions = types.WithPhaseReconcileOptions

// WithPhaseTeardownOptions sets options for one phase of a revision.
var WithPhaseTeardownOptions = types.WithPhaseTeardownOptions

// WithOwner sets the owner of objects.
var WithOwner = types.WithOwner

// ProgressProbeType is the type of the probe that decides whether an object is
// complete.
const ProgressProbeType = types.ProgressProbeType

// OwnerStrategy reads and writes the owners of an object.
type OwnerStrategy = types.OwnerStrategy

// RevisionEngine reconciles and tears down revisions.
type RevisionEngine = machinery.RevisionEngine
