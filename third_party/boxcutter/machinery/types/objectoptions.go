// SPDX-License-Identifier: Apache-2.0

package types

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CollisionProtection selects which existing objects may be adopted.
type CollisionProtection string

const (
	// CollisionProtectionPrevent never adopts an object.
	CollisionProtectionPrevent CollisionProtection = "Prevent"
	// CollisionProtectionIfNoController adopts objects that have no controller.
	CollisionProtectionIfNoController CollisionProtection = "IfNoController"
	// CollisionProtectionNone adopts objects from any other controller. Two
	// controllers that both use it for the same object overwrite each other
	// forever.
	CollisionProtectionNone CollisionProtection = "None"
)

// WithCollisionProtection selects which existing objects may be adopted.
type WithCollisionProtection CollisionProtection

// ApplyToObjectReconcileOptions sets the option.
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

// WithSiblingOwnerClassifier sets the function that reports whether an owner is
// the owner of another revision.
type WithSiblingOwnerClassifier SiblingOwnerClassifierFunc

// ApplyToObjectReconcileOptions sets the option.
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

// WithSiblingOwners classifies the given objects as siblings, by their UIDs.
func WithSiblingOwners(siblings []client.Object) WithSiblingOwnerClassifier {
	uids := make(map[types.UID]bool, len(siblings))
	for _, sibling := range siblings {
		uids[sibling.GetUID()] = true
	}
	return siblingsByUID(uids)
}

// WithSiblingOwnerRefs classifies the given references as siblings, by their UIDs.
func WithSiblingOwnerRefs(ownerRefs []metav1.OwnerReference) WithSiblingOwnerClassifier {
	uids := make(map[types.UID]bool, len(ownerRefs))
	for _, ref := range ownerRefs {
		uids[ref.UID] = true
	}
	return siblingsByUID(uids)
}

// siblingsByUID never classifies an owner without a UID as a sibling.
func siblingsByUID(uids map[types.UID]bool) WithSiblingOwnerClassifier {
	return func(ref metav1.OwnerReference) bool { return ref.UID != "" && uids[ref.UID] }
}

// WithPaused reports the actions without writing anything.
type WithPaused struct{}

// ApplyToObjectReconcileOptions sets the option.
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

// WithProbe registers a probe with the given type and replaces an earlier probe
// with this type.
func WithProbe(t string, probe Prober) ObjectReconcileOption {
	return &objectReconcileOption{func(opts *ObjectReconcileOptions) {
		if opts.Probes == nil {
			opts.Probes = map[string]Prober{}
		}
		opts.Probes[t] = probe
	}}
}

// WithOrphan retains objects at teardown. They count as gone.
func WithOrphan() ObjectTeardownOption {
	return &objectTeardownOption{func(opts *ObjectTeardownOptions) { opts.Orphan = true }}
}

// WithTeardownWriter sets the writer that deletes and orphans objects. The writer
// of the engine removes an owner that is not the controller.
func WithTeardownWriter(writer client.Writer) ObjectTeardownOption {
	return &objectTeardownOption{func(opts *ObjectTeardownOptions) { opts.TeardownWriter = writer }}
}

type ownerOption struct {
	objectReconcileOption
	objectTeardownOption

	owner    client.Object
	strategy OwnerStrategy
}

func (o *ownerOption) ApplyToComparatorOptions(opts *ComparatorOptions) {
	opts.Owner, opts.OwnerStrategy = o.owner, o.strategy
}

// WithOwner sets the owner of the objects. The strategy makes it their
// controller. WithOwner panics if the owner has no UID: such an owner was not
// read from the API server, and a recreated owner with the same name would be
// mistaken for it.
func WithOwner(obj client.Object, start OwnerStrategy) interface {
	ComparatorOption
	ObjectReconcileOption
	ObjectTeardownOption
} {
	if obj != nil && obj.GetUID() == "" {
		panic(fmt.Sprintf("owner %s must have a UID", ToObjectRef(obj)))
	}
	return &ownerOption{
		owner:    obj,
		strategy: start,
		objectReconcileOption: objectReconcileOption{func(opts *ObjectReconcileOptions) {
			opts.Owner, opts.OwnerStrategy = obj, start
		}},
		objectTeardownOption: objectTeardownOption{func(opts *ObjectTeardownOptions) {
			opts.Owner, opts.OwnerStrategy = obj, start
		}},
	}
}
