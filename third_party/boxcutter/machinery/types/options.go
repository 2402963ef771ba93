// SPDX-License-Identifier: Apache-2.0

package types

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RevisionReconcileOptions are the settings for reconciling a revision.
type RevisionReconcileOptions struct {
	// DefaultPhaseOptions apply to all phases.
	DefaultPhaseOptions []PhaseReconcileOption
	// PhaseOptions apply to the phase with this name, after the defaults.
	PhaseOptions map[string][]PhaseReconcileOption
	// ProgressDeadline is the deadline for completing the revision; zero
	// means none. See WithProgressDeadline.
	ProgressDeadline time.Time
}

// ForPhase returns the options for one phase: the defaults, then its own.
func (rropts RevisionReconcileOptions) ForPhase(phaseName string) []PhaseReconcileOption {
	return slices.Concat(rropts.DefaultPhaseOptions, rropts.PhaseOptions[phaseName])
}

// GetOwner returns the default owner of all objects, or nil.
func (rropts RevisionReconcileOptions) GetOwner() client.Object {
	var phase PhaseReconcileOptions
	for _, opt := range rropts.DefaultPhaseOptions {
		opt.ApplyToPhaseReconcileOptions(&phase)
	}
	var object ObjectReconcileOptions
	for _, opt := range phase.DefaultObjectOptions {
		opt.ApplyToObjectReconcileOptions(&object)
	}
	return object.Owner
}

// RevisionReconcileOption is an option for RevisionEngine.Reconcile.
type RevisionReconcileOption interface {
	// ApplyToRevisionReconcileOptions sets the option.
	ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions)
}

// RevisionTeardownOptions are the settings for the teardown of a revision.
type RevisionTeardownOptions struct {
	// DefaultPhaseOptions apply to all phases.
	DefaultPhaseOptions []PhaseTeardownOption
	// PhaseOptions apply to the phase with this name, after the defaults.
	PhaseOptions map[string][]PhaseTeardownOption
}

// ForPhase returns the options for one phase: the defaults, then its own.
func (rtopts RevisionTeardownOptions) ForPhase(phaseName string) []PhaseTeardownOption {
	return append([]PhaseTeardownOption{}, slices.Concat(rtopts.DefaultPhaseOptions, rtopts.PhaseOptions[phaseName])...)
}

// RevisionTeardownOption is an option for RevisionEngine.Teardown.
type RevisionTeardownOption interface {
	// ApplyToRevisionTeardownOptions sets the option.
	ApplyToRevisionTeardownOptions(opts *RevisionTeardownOptions)
}

// PhaseReconcileOptions are the settings for reconciling a phase.
type PhaseReconcileOptions struct {
	// DefaultObjectOptions apply to all objects.
	DefaultObjectOptions []ObjectReconcileOption
	// ObjectOptions apply to this object, after the defaults.
	ObjectOptions map[ObjectRef][]ObjectReconcileOption
	// AggregateErrors tries all objects and joins their errors. By default the
	// first error stops the phase.
	AggregateErrors bool
	// Concurrency is the maximum number of objects of one kind that are written
	// concurrently; below 2, objects are written one by one. See WithConcurrency.
	Concurrency int
	// NoDryRunOfUnchanged skips the dry run of objects that are not going to be
	// written. See WithoutDryRunOfUnchanged.
	NoDryRunOfUnchanged bool
}

// ForObject returns the options for one object: the defaults, then its own.
func (pro PhaseReconcileOptions) ForObject(obj client.Object) []ObjectReconcileOption {
	return slices.Concat(pro.DefaultObjectOptions, pro.ObjectOptions[ToObjectRef(obj)])
}

// PhaseReconcileOption is an option for PhaseEngine.Reconcile, and a default for
// the phases of a revision.
type PhaseReconcileOption interface {
	// ApplyToPhaseReconcileOptions sets the option.
	ApplyToPhaseReconcileOptions(opts *PhaseReconcileOptions)
	RevisionReconcileOption
}

// PhaseTeardownOptions are the settings for the teardown of a phase.
type PhaseTeardownOptions struct {
	// DefaultObjectOptions apply to all objects.
	DefaultObjectOptions []ObjectTeardownOption
	// ObjectOptions apply to this object, after the defaults.
	ObjectOptions map[ObjectRef][]ObjectTeardownOption
	// AggregateErrors tries all objects and joins their errors. By default the
	// first error stops the phase.
	AggregateErrors bool
	// Concurrency is the maximum number of objects of one kind that are deleted
	// concurrently; below 2, objects are deleted one by one. See WithConcurrency.
	Concurrency int
}

// ForObject returns the options for one object: the defaults, then its own.
func (pto PhaseTeardownOptions) ForObject(obj client.Object) []ObjectTeardownOption {
	return append([]ObjectTeardownOption{}, slices.Concat(pto.DefaultObjectOptions, pto.ObjectOptions[ToObjectRef(obj)])...)
}

// PhaseTeardownOption is an option for PhaseEngine.Teardown, and a default for
// the phases of a revision.
type PhaseTeardownOption interface {
	// ApplyToPhaseTeardownOptions sets the option.
	ApplyToPhaseTeardownOptions(opts *PhaseTeardownOptions)
	RevisionTeardownOption
}

// SiblingOwnerClassifierFunc reports whether the controller of an object is a
// sibling of the current owner, that is, the owner of another revision of the
// same application. Objects of siblings may be adopted.
type SiblingOwnerClassifierFunc func(ownerRef metav1.OwnerReference) bool

// ObjectReconcileOptions are the settings for reconciling an object.
type ObjectReconcileOptions struct {
	// CollisionProtection selects which existing objects may be adopted. Default:
	// CollisionProtectionPrevent.
	CollisionProtection CollisionProtection
	// SiblingOwnerClassifier recognizes the owners of other revisions.
	SiblingOwnerClassifier SiblingOwnerClassifierFunc
	// Owner becomes the controller of the object, through OwnerStrategy. Without
	// an owner, the revision annotation identifies the objects of the revision.
	Owner client.Object
	// OwnerStrategy is required if Owner is set.
	OwnerStrategy OwnerStrategy
	// Paused reports the actions without writing anything.
	Paused bool
	// Probes are run on the resulting object, by probe type.
	Probes map[string]Prober
	// UnchangedSince reports whether the revision with a number has the same object.
	// See WithUnchangedSince.
	UnchangedSince func(obj client.Object, revision int64) bool
}

// Default sets the defaults.
func (opts *ObjectReconcileOptions) Default() {
	if opts.CollisionProtection == "" {
		opts.CollisionProtection = CollisionProtectionPrevent
	}
	if opts.SiblingOwnerClassifier == nil {
		opts.SiblingOwnerClassifier = func(metav1.OwnerReference) bool { return false }
	}
}

// ObjectReconcileOption is an option for ObjectEngine.Reconcile, and a default
// for the objects of phases and revisions.
type ObjectReconcileOption interface {
	// ApplyToObjectReconcileOptions sets the option.
	ApplyToObjectReconcileOptions(opts *ObjectReconcileOptions)
	PhaseReconcileOption
}

// ObjectTeardownOptions are the settings for the teardown of an object.
type ObjectTeardownOptions struct {
	// Orphan retains the object.
	Orphan bool
	// TeardownWriter replaces the engine's writer.
	TeardownWriter client.Writer
	// Owner is the owner of the objects that are torn down.
	Owner client.Object
	// OwnerStrategy is required if Owner is set.
	OwnerStrategy OwnerStrategy
}

// Default sets the defaults. There are none at present.
func (opts *ObjectTeardownOptions) Default() {}

// ObjectTeardownOption is an option for ObjectEngine.Teardown, and a default for
// the objects of phases and revisions.
type ObjectTeardownOption interface {
	// ApplyToObjectTeardownOptions sets the option.
	ApplyToObjectTeardownOptions(opts *ObjectTeardownOptions)
	PhaseTeardownOption
}

// ComparatorOptions are the settings of a comparison.
type ComparatorOptions struct {
	// Owner becomes the controller of the desired object before the comparison.
	Owner client.Object
	// OwnerStrategy is required if Owner is set.
	OwnerStrategy OwnerStrategy
}

// ComparatorOption is an option for Comparator.Compare.
type ComparatorOption interface {
	// ApplyToComparatorOptions sets the option.
	ApplyToComparatorOptions(opts *ComparatorOptions)
}

// OwnerStrategy reads and writes the owners of an object.
type OwnerStrategy interface {
	// SetControllerReference makes owner the controller of obj. It fails with
	// *controllerutil.AlreadyOwnedError if obj has another controller.
	SetControllerReference(owner, obj metav1.Object) error
	// GetController returns the controller of obj, and false if it has none.
	GetController(obj metav1.Object) (metav1.OwnerReference, bool)
	// IsController reports whether owner is the controller of obj.
	IsController(owner, obj metav1.Object) bool
	// CopyOwnerReferences replaces the owners of objB by the owners of objA.
	CopyOwnerReferences(objA, objB metav1.Object)
	// ReleaseController clears the controller flag of all owners of obj.
	ReleaseController(obj metav1.Object)
	// RemoveOwner removes owner from the owners of obj.
	RemoveOwner(owner, obj metav1.Object)
}
