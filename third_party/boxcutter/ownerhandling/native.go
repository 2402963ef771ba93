// SPDX-License-Identifier: Apache-2.0

package ownerhandling

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// OwnerStrategyNative stores owners in metadata.ownerReferences. The garbage
// collector deletes an object when all its owners are gone. An owner in another
// namespace than the object is rejected.
type OwnerStrategyNative struct {
	scheme *runtime.Scheme
}

// NewNative returns the strategy. The scheme supplies the kinds of typed owners.
func NewNative(scheme *runtime.Scheme) *OwnerStrategyNative {
	return &OwnerStrategyNative{scheme: scheme}
}

// GetController returns the controller of obj, and false if it has none.
func (s *OwnerStrategyNative) GetController(obj metav1.Object) (
	metav1.OwnerReference, bool,
) {
	if ref := metav1.GetControllerOf(obj); ref != nil {
		return *ref, true
	}
	return metav1.OwnerReference{}, false
}

// CopyOwnerReferences replaces the owners of objB by the owners of objA.
func (s *OwnerStrategyNative) CopyOwnerReferences(objA, objB metav1.Object) {
	objB.SetOwnerReferences(cloneRefs(objA.GetOwnerReferences()))
}

// IsOwner reports whether owner is an owner of obj.
func (s *OwnerStrategyNative) IsOwner(owner, obj metav1.Object) bool {
	matches := ownerMatcher(owner, s.scheme)
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return matches(refIdentity(ref))
	})
}

// IsController reports whether owner is the controller of obj.
func (s *OwnerStrategyNative) IsController(
	owner, obj metav1.Object,
) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && ownerMatcher(owner, s.scheme)(refIdentity(*ref))
}

// RemoveOwner removes owner from the owners of obj.
func (s *OwnerStrategyNative) RemoveOwner(owner, obj metav1.Object) {
	matches := ownerMatcher(owner, s.scheme)
	obj.SetOwnerReferences(slices.DeleteFunc(cloneRefs(obj.GetOwnerReferences()), func(ref metav1.OwnerReference) bool {
		return matches(refIdentity(ref))
	}))
}

// ReleaseController sets the controller flag of the controller of obj to false.
func (s *OwnerStrategyNative) ReleaseController(obj metav1.Object) {
	refs := cloneRefs(obj.GetOwnerReferences())
	for i := range refs {
		if refs[i].Controller != nil {
			refs[i].Controller = new(false)
		}
	}
	obj.SetOwnerReferences(refs)
}

// SetOwnerReference makes owner an owner of obj, but not its controller. It fails
// if the owner's kind cannot be determined or its namespace differs from the
// namespace of obj.
func (s *OwnerStrategyNative) SetOwnerReference(owner, obj metav1.Object) error {
	return controllerutil.SetOwnerReference(owner, obj, s.scheme)
}

// SetControllerReference makes owner the controller of obj and sets
// blockOwnerDeletion, so that a foreground deletion of the owner waits for obj.
// It fails with *controllerutil.AlreadyOwnedError if obj has another controller,
// and with the errors of SetOwnerReference.
func (s *OwnerStrategyNative) SetControllerReference(owner, obj metav1.Object) error {
	return controllerutil.SetControllerReference(owner, obj, s.scheme)
}

// EnqueueRequestForOwner returns an event handler that enqueues the owners of an
// object with the given type, or only its controller. The mapper supplies the
// scope of the owners. If the kind of ownerType cannot be determined, the handler
// enqueues nothing and logs the reason at each event.
func (s *OwnerStrategyNative) EnqueueRequestForOwner(
	ownerType client.Object, mapper meta.RESTMapper, isController bool,
) handler.EventHandler {
	gvk, err := kindOf(ownerType, s.scheme)
	if err != nil {
		return logAtEachEvent(err)
	}
	var opts []handler.OwnerOption
	if isController {
		opts = append(opts, handler.OnlyControllerOwner())
	}
	// Only the kind matters. controller-runtime panics if it cannot determine the kind
	// of a type.
	owner := &unstructured.Unstructured{}
	owner.SetGroupVersionKind(gvk)
	return handler.EnqueueRequestForOwner(s.scheme, mapper, owner, opts...)
}

// cloneRefs returns a deep copy, so that objects do not share references. It
// returns nil for nil.
func cloneRefs(refs []metav1.OwnerReference) []metav1.OwnerReference {
	if len(refs) == 0 {
		return nil
	}
	clones := make([]metav1.OwnerReference, len(refs))
	for i := range refs {
		refs[i].DeepCopyInto(&clones[i])
	}
	return clones
}
