// SPDX-License-Identifier: Apache-2.0

package types

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CollisionProtection says when an object that exists already is taken over.
type CollisionProtection string

const (
	// CollisionProtectionPrevent never takes over an object.
	CollisionProtectionPrevent CollisionProtection = "Prevent"
	// CollisionProtectionIfNoController takes over objects without a controller.
	CollisionProtectionIfNoController CollisionProtection = "IfNoController"
	// CollisionProtectionNone takes over objects from whoever has them. Two who
	// both do this will fight without end.
	CollisionProtectionNone CollisionProtection = "None"
)

// objectReconcileOption lifts a change of object options to phases and revisions.
type objectReconcileOption func(opts *ObjectReconcileOptions)

func (fn objectReconcileOption) ApplyToObjectReconcileOptions(opts *ObjectReconcileOptions) {
	fn(opts)
}

func (fn objectReconcileOption) ApplyToPhaseReconcileOptions(opts *PhaseReconcileOptions) {
	opts.DefaultObjectOptions = append(opts.DefaultObjectOptions, fn)
}

func (fn objectReconcileOption) ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, fn)
}

// objectTeardownOption lifts a change of object options to phases and revisions.
type objectTeardownOption func(opts *ObjectTeardownOptions)

func (fn objectTeardownOption) ApplyToObjectTeardownOptions(opts *ObjectTeardownOptions) {
	fn(opts)
}

func (fn objectTeardownOption) ApplyToPhaseTeardownOptions(opts *PhaseTeardownOptions) {
	opts.DefaultObjectOptions = append(opts.DefaultObjectOptions, fn)
}

func (fn objectTeardownOption) ApplyToRevisionTeardownOptions(opts *RevisionTeardownOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, fn)
}

// WithCollisionProtection sets when objects of others are taken over.
type WithCollisionProtection CollisionProtection

// ApplyToObjectReconcileOptions enters the option.
func (p WithCollisionProtection) ApplyToObjectReconcileOptions(opts *ObjectReconcileOptions) {
	opts.CollisionProtection = CollisionProtection(p)
}

// ApplyToPhaseReconcileOptions makes the option a default of the phase's objects.
func (p WithCollisionProtection) ApplyToPhaseReconcileOptions(opts *PhaseReconcileOptions) {
	opts.DefaultObjectOptions = append(opts.DefaultObjectOptions, p)
}

// ApplyToRevisionReconcileOptions makes the option a default of all phases.
func (p WithCollisionProtection) ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, p)
}

// WithSiblingOwnerClassifier sets how the owners of other revisions are known.
type WithSiblingOwnerClassifier SiblingOwnerClassifierFunc

// ApplyToObjectReconcileOptions enters the option.
func (p WithSiblingOwnerClassifier) ApplyToObjectReconcileOptions(opts *ObjectReconcileOptions) {
	opts.SiblingOwnerClassifier = SiblingOwnerClassifierFunc(p)
}

// ApplyToPhaseReconcileOptions makes the option a default of the phase's objects.
func (p WithSiblingOwnerClassifier) ApplyToPhaseReconcileOptions(opts *PhaseReconcileOptions) {
	opts.DefaultObjectOptions = append(opts.DefaultObjectOptions, p)
}

// ApplyToRevisionReconcileOptions makes the option a default of all phases.
func (p WithSiblingOwnerClassifier) ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, p)
}

// WithSiblingOwners takes the given objects for siblings, by their UIDs.
func WithSiblingOwners(siblings []client.Object) WithSiblingOwnerClassifier {
	uids := make(map[types.UID]bool, len(siblings))
	for _, sibling := range siblings {
		uids[sibling.GetUID()] = true
	}
	return siblingsByUID(uids)
}

// WithSiblingOwnerRefs takes the given references for siblings, by their UIDs.
func WithSiblingOwnerRefs(ownerRefs []metav1.OwnerReference) WithSiblingOwnerClassifier {
	uids := make(map[types.UID]bool, len(ownerRefs))
	for _, ref := range ownerRefs {
		uids[ref.UID] = true
	}
	return siblingsByUID(uids)
}

// siblingsByUID never takes an owner without a UID for a sibling.
func siblingsByUID(uids map[types.UID]bool) WithSiblingOwnerClassifier {
	return func(ref metav1.OwnerReference) bool { return ref.UID != "" && uids[ref.UID] }
}

// WithPaused reports what would be done and writes nothing.
type WithPaused struct{}

// ApplyToObjectReconcileOptions enters the option.
func (p WithPaused) ApplyToObjectReconcileOptions(opts *ObjectReconcileOptions) {
	opts.Paused = true
}

// ApplyToPhaseReconcileOptions makes the option a default of the phase's objects.
func (p WithPaused) ApplyToPhaseReconcileOptions(opts *PhaseReconcileOptions) {
	opts.DefaultObjectOptions = append(opts.DefaultObjectOptions, p)
}

// ApplyToRevisionReconcileOptions makes the option a default of all phases.
func (p WithPaused) ApplyToRevisionReconcileOptions(opts *RevisionReconcileOptions) {
	opts.DefaultPhaseOptions = append(opts.DefaultPhaseOptions, p)
}

// WithProbe registers a probe under a type, in place of one registered before.
func WithProbe(t string, probe Prober) ObjectReconcileOption {
	return objectReconcileOption(func(opts *ObjectReconcileOptions) {
		if opts.Probes == nil {
			opts.Probes = map[string]Prober{}
		}
		opts.Probes[t] = probe
	})
}

// WithOrphan leaves objects in place at teardown and removes our marks from them.
func WithOrphan() ObjectTeardownOption {
	return objectTeardownOption(func(opts *ObjectTeardownOptions) { opts.Orphan = true })
}

// WithTeardownWriter has the writes of a teardown made by the given writer.
func WithTeardownWriter(writer client.Writer) ObjectTeardownOption {
	return objectTeardownOption(func(opts *ObjectTeardownOptions) { opts.TeardownWriter = writer })
}

type ownerOption struct {
	objectReconcileOption
	objectTeardownOption

	owner    client.Object
	strategy OwnerStrategy
}

func (o ownerOption) ApplyToComparatorOptions(opts *ComparatorOptions) {
	opts.Owner, opts.OwnerStrategy = o.owner, o.strategy
}

// WithOwner has objects belong to an owner, who becomes their controller by the
// given strategy.
func WithOwner(obj client.Object, start OwnerStrategy) interface {
	ComparatorOption
	ObjectReconcileOption
	ObjectTeardownOption
} {
	return ownerOption{
		owner:    obj,
		strategy: start,
		objectReconcileOption: func(opts *ObjectReconcileOptions) {
			opts.Owner, opts.OwnerStrategy = obj, start
		},
		objectTeardownOption: func(opts *ObjectTeardownOptions) {
			opts.Owner, opts.OwnerStrategy = obj, start
		},
	}
}
