// SPDX-License-Identifier: Apache-2.0

package types

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RevisionReconcileOptions shape how a revision is reconciled.
type RevisionReconcileOptions struct {
	// DefaultPhaseOptions hold for all phases.
	DefaultPhaseOptions []PhaseReconcileOption
	// PhaseOptions hold for the phase of that name, after the defaults.
	PhaseOptions map[string][]PhaseReconcileOption
}

// ForPhase returns the options for one phase: the defaults, then its own.
func (rropts RevisionReconcileOptions) ForPhase(phaseName string) []PhaseReconcileOption {
	return slices.Concat(rropts.DefaultPhaseOptions, rropts.PhaseOptions[phaseName])
}

// GetOwner returns the owner that the defaults give to all objects, nil when
// they give none.
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
	// ApplyToRevisionReconcileOptions enters the option.
	ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions)
}

// RevisionTeardownOptions shape how a revision is torn down.
type RevisionTeardownOptions struct {
	// DefaultPhaseOptions hold for all phases.
	DefaultPhaseOptions []PhaseTeardownOption
	// PhaseOptions hold for the phase of that name, after the defaults.
	PhaseOptions map[string][]PhaseTeardownOption
}

// ForPhase returns the options for one phase: the defaults, then its own.
func (rtopts RevisionTeardownOptions) ForPhase(phaseName string) []PhaseTeardownOption {
	return slices.Concat(rtopts.DefaultPhaseOptions, rtopts.PhaseOptions[phaseName])
}

// RevisionTeardownOption is an option for RevisionEngine.Teardown.
type RevisionTeardownOption interface {
	// ApplyToRevisionTeardownOptions enters the option.
	ApplyToRevisionTeardownOptions(opts *RevisionTeardownOptions)
}

// PhaseReconcileOptions shape how a phase is reconciled.
type PhaseReconcileOptions struct {
	// DefaultObjectOptions hold for all objects.
	DefaultObjectOptions []ObjectReconcileOption
	// ObjectOptions hold for the object of that name, after the defaults.
	ObjectOptions map[ObjectRef][]ObjectReconcileOption
	// AggregateErrors has all objects tried and their errors joined, where
	// otherwise the first error stops the phase.
	AggregateErrors bool
	// Concurrency is how many neighbours of the same kind are written at the same
	// time; below 2: one after the other. See WithConcurrency.
	Concurrency int
	// NoDryRunOfUnchanged leaves out the dry-run of objects that are as they should
	// be. See WithoutDryRunOfUnchanged.
	NoDryRunOfUnchanged bool
}

// ForObject returns the options for one object: the defaults, then its own.
func (pro PhaseReconcileOptions) ForObject(obj client.Object) []ObjectReconcileOption {
	return slices.Concat(pro.DefaultObjectOptions, pro.ObjectOptions[ToObjectRef(obj)])
}

// PhaseReconcileOption is an option for PhaseEngine.Reconcile, and as a default
// for that of a revision.
type PhaseReconcileOption interface {
	// ApplyToPhaseReconcileOptions enters the option.
	ApplyToPhaseReconcileOptions(opts *PhaseReconcileOptions)
	RevisionReconcileOption
}

// PhaseTeardownOptions shape how a phase is torn down.
type PhaseTeardownOptions struct {
	// DefaultObjectOptions hold for all objects.
	DefaultObjectOptions []ObjectTeardownOption
	// ObjectOptions hold for the object of that name, after the defaults.
	ObjectOptions map[ObjectRef][]ObjectTeardownOption
	// AggregateErrors has all objects tried and their errors joined, where
	// otherwise the first error stops the phase.
	AggregateErrors bool
	// Concurrency is how many neighbours of the same kind are deleted at the same
	// time; below 2: one after the other. See WithConcurrency.
	Concurrency int
}

// ForObject returns the options for one object: the defaults, then its own.
func (pto PhaseTeardownOptions) ForObject(obj client.Object) []ObjectTeardownOption {
	return slices.Concat(pto.DefaultObjectOptions, pto.ObjectOptions[ToObjectRef(obj)])
}

// PhaseTeardownOption is an option for PhaseEngine.Teardown, and as a default
// for that of a revision.
type PhaseTeardownOption interface {
	// ApplyToPhaseTeardownOptions enters the option.
	ApplyToPhaseTeardownOptions(opts *PhaseTeardownOptions)
	RevisionTeardownOption
}

// SiblingOwnerClassifierFunc says whether an object's controller is a sibling
// of the owner at work: the owner of another revision of the same thing, whose
// objects may pass on.
type SiblingOwnerClassifierFunc func(ownerRef metav1.OwnerReference) bool

// ObjectReconcileOptions shape how an object is reconciled.
type ObjectReconcileOptions struct {
	// CollisionProtection says when objects of others are taken over. Default:
	// CollisionProtectionPrevent.
	CollisionProtection CollisionProtection
	// SiblingOwnerClassifier recognizes the owners of other revisions.
	SiblingOwnerClassifier SiblingOwnerClassifierFunc
	// Owner is made the controller of the object, by OwnerStrategy. Without an
	// owner the revision annotation alone says whose the object is.
	Owner client.Object
	// OwnerStrategy is needed exactly when there is an Owner.
	OwnerStrategy OwnerStrategy
	// Paused reports what would be done and writes nothing.
	Paused bool
	// Probes are run on the resulting object, by probe type.
	Probes map[string]Prober
}

// Default fills in what was not set.
func (opts *ObjectReconcileOptions) Default() {
	if opts.CollisionProtection == "" {
		opts.CollisionProtection = CollisionProtectionPrevent
	}
	if opts.SiblingOwnerClassifier == nil {
		opts.SiblingOwnerClassifier = func(metav1.OwnerReference) bool { return false }
	}
}

// ObjectReconcileOption is an option for ObjectEngine.Reconcile, and as a
// default for those of phases and revisions.
type ObjectReconcileOption interface {
	// ApplyToObjectReconcileOptions enters the option.
	ApplyToObjectReconcileOptions(opts *ObjectReconcileOptions)
	PhaseReconcileOption
}

// ObjectTeardownOptions shape how an object is torn down.
type ObjectTeardownOptions struct {
	// Orphan leaves the object in place and removes our marks from it.
	Orphan bool
	// KeepUsedCRDs leaves a CustomResourceDefinition in place of which there are
	// objects. See WithKeepUsedCRDs.
	KeepUsedCRDs bool
	// TeardownWriter writes instead of the engine's writer.
	TeardownWriter client.Writer
	// Owner is on whose behalf the object is torn down.
	Owner client.Object
	// OwnerStrategy is needed exactly when there is an Owner.
	OwnerStrategy OwnerStrategy
}

// Default fills in what was not set. There is nothing to fill in now.
func (opts *ObjectTeardownOptions) Default() {}

// ObjectTeardownOption is an option for ObjectEngine.Teardown, and as a default
// for those of phases and revisions.
type ObjectTeardownOption interface {
	// ApplyToObjectTeardownOptions enters the option.
	ApplyToObjectTeardownOptions(opts *ObjectTeardownOptions)
	PhaseTeardownOption
}

// ComparatorOptions shape a comparison.
type ComparatorOptions struct {
	// Owner is made the controller of the desired object before it is compared.
	Owner client.Object
	// OwnerStrategy is needed exactly when there is an Owner.
	OwnerStrategy OwnerStrategy
}

// ComparatorOption is an option for Comparator.Compare.
type ComparatorOption interface {
	// ApplyToComparatorOptions enters the option.
	ApplyToComparatorOptions(opts *ComparatorOptions)
}

// OwnerStrategy reads and writes who owns an object.
type OwnerStrategy interface {
	// SetControllerReference makes owner the controller of obj. It fails with
	// *controllerutil.AlreadyOwnedError while obj has another controller.
	SetControllerReference(owner, obj metav1.Object) error
	// GetController returns the controller of obj, false when it has none.
	GetController(obj metav1.Object) (metav1.OwnerReference, bool)
	// IsController says whether owner is the controller of obj.
	IsController(owner, obj metav1.Object) bool
	// CopyOwnerReferences replaces the owners of objB by those of objA.
	CopyOwnerReferences(objA, objB metav1.Object)
	// ReleaseController leaves the owners of obj, none of them as controller.
	ReleaseController(obj metav1.Object)
	// RemoveOwner removes owner from the owners of obj.
	RemoveOwner(owner, obj metav1.Object)
}
