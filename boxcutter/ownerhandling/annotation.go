// SPDX-License-Identifier: Apache-2.0

package ownerhandling

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// OwnerStrategyAnnotation keeps owners in one annotation, as a JSON list of
//
//	{"apiVersion","kind","name","namespace","uid","controller"}
//
// where controller is there only when it is true. The garbage collector does
// not see these owners, and they may be in any namespace.
//
// An annotation that is no such list is never overwritten: methods that add to it
// fail with *MalformedAnnotationError, those that read it find no owner, and those
// would take something out of it leaves it alone.
type OwnerStrategyAnnotation struct {
	scheme        *runtime.Scheme
	annotationKey string
}

// MalformedAnnotationError says that the annotation meant to hold the owners of
// an object holds something else.
type MalformedAnnotationError struct {
	// Object is the object that carries the annotation.
	Object types.NamespacedName
	// Key is the key of the annotation.
	Key string
	// Err says why its value is no list of owners.
	Err error
}

// Error names the object, the annotation and the error.
func (e *MalformedAnnotationError) Error() string {
	return fmt.Sprintf("reading the owners of %s in annotation %q: %v; correct or remove the annotation", e.Object, e.Key, e.Err)
}

// Unwrap returns why the value is no list of owners.
func (e *MalformedAnnotationError) Unwrap() error { return e.Err }

// NewAnnotation returns the strategy that keeps owners under the given
// annotation key. The scheme tells the kinds of typed owners.
func NewAnnotation(scheme *runtime.Scheme, annotationKey string) *OwnerStrategyAnnotation {
	return &OwnerStrategyAnnotation{scheme: scheme, annotationKey: annotationKey}
}

// annotationRef is one owner as the annotation holds it.
type annotationRef struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Name       string    `json:"name"`
	Namespace  string    `json:"namespace"`
	UID        types.UID `json:"uid"`
	Controller bool      `json:"controller,omitempty"`
}

func (r annotationRef) identity() identity {
	return identityOf(r.APIVersion, r.Kind, r.Name, string(r.UID))
}

// ownerReference is the reference without the namespace, for which a native
// reference has no place.
func (r annotationRef) ownerReference() metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: r.UID}
	if r.Controller {
		ref.Controller = new(true)
	}
	return ref
}

// GetController returns the owner that is the object's controller, and false
// when it has none.
func (s *OwnerStrategyAnnotation) GetController(obj metav1.Object) (
	metav1.OwnerReference, bool,
) {
	for _, ref := range s.readable(obj) {
		if ref.Controller {
			return ref.ownerReference(), true
		}
	}
	return metav1.OwnerReference{}, false
}

// CopyOwnerReferences replaces the owners of objB by those of objA, as they are
// written there.
func (s *OwnerStrategyAnnotation) CopyOwnerReferences(objA, objB metav1.Object) {
	s.store(objB, objA.GetAnnotations()[s.annotationKey])
}

// EnqueueRequestForOwner returns an event handler that maps an object to its
// owners of the given type, or only to its controller. The mapper is not
// needed. When the kind of ownerType cannot be told, the handler maps to
// nothing and logs the reason at each event.
func (s *OwnerStrategyAnnotation) EnqueueRequestForOwner(
	ownerType client.Object, _ meta.RESTMapper, isController bool,
) handler.EventHandler {
	gvk, err := kindOf(ownerType, s.scheme)
	if err != nil {
		return logAtEachEvent(err)
	}
	return &AnnotationEnqueueRequestForOwner{
		OwnerType:    ownerType,
		IsController: isController,
		ownerKind:    gvk.GroupKind(),
		strategy:     s,
	}
}

// SetOwnerReference makes owner an owner of obj that is not its controller. It
// fails when the owner's kind cannot be told, and with
// *MalformedAnnotationError when the owners there are cannot be read.
func (s *OwnerStrategyAnnotation) SetOwnerReference(owner, obj metav1.Object) error {
	return s.set(owner, obj, false)
}

// SetControllerReference makes owner the controller of obj. It fails with
// *controllerutil.AlreadyOwnedError while obj has another controller, and as
// SetOwnerReference does.
func (s *OwnerStrategyAnnotation) SetControllerReference(owner, obj metav1.Object) error {
	return s.set(owner, obj, true)
}

func (s *OwnerStrategyAnnotation) set(owner, obj metav1.Object, controller bool) error {
	gvk, err := kindOf(owner, s.scheme)
	if err != nil {
		return err
	}
	refs, err := s.read(obj)
	if err != nil {
		return err
	}
	ours := annotationRef{
		APIVersion: gvk.GroupVersion().String(),
		Kind:       gvk.Kind,
		Name:       owner.GetName(),
		Namespace:  owner.GetNamespace(),
		UID:        owner.GetUID(),
		Controller: controller,
	}
	if controller {
		if other := slices.IndexFunc(refs, controlsBeside(ours)); other >= 0 {
			return &controllerutil.AlreadyOwnedError{Object: obj, Owner: refs[other].ownerReference()}
		}
	}
	s.write(obj, upsert(refs, ours))
	return nil
}

// controlsBeside finds controllers that are not the given owner.
func controlsBeside(owner annotationRef) func(annotationRef) bool {
	return func(ref annotationRef) bool { return ref.Controller && ref.identity() != owner.identity() }
}

// upsert puts the reference in the place of the one to the same object.
func upsert(refs []annotationRef, ref annotationRef) []annotationRef {
	i := slices.IndexFunc(refs, func(old annotationRef) bool { return old.identity() == ref.identity() })
	if i < 0 {
		return append(refs, ref)
	}
	refs[i] = ref
	return refs
}

// IsOwner reports whether owner is an owner of obj.
func (s *OwnerStrategyAnnotation) IsOwner(owner, obj metav1.Object) bool {
	matches := ownerMatcher(owner, s.scheme)
	return slices.ContainsFunc(s.readable(obj), func(ref annotationRef) bool {
		return matches(ref.identity())
	})
}

// IsController reports whether owner is the controller of obj.
func (s *OwnerStrategyAnnotation) IsController(
	owner, obj metav1.Object,
) bool {
	ref, ok := s.GetController(obj)
	return ok && ownerMatcher(owner, s.scheme)(refIdentity(ref))
}

// RemoveOwner removes owner from the owners of obj.
func (s *OwnerStrategyAnnotation) RemoveOwner(owner, obj metav1.Object) {
	refs, err := s.read(obj)
	if err != nil {
		return
	}
	matches := ownerMatcher(owner, s.scheme)
	s.write(obj, slices.DeleteFunc(refs, func(ref annotationRef) bool { return matches(ref.identity()) }))
}

// ReleaseController leaves the owners of obj, none of them as controller.
func (s *OwnerStrategyAnnotation) ReleaseController(obj metav1.Object) {
	refs, err := s.read(obj)
	if err != nil {
		return
	}
	for i := range refs {
		refs[i].Controller = false
	}
	s.write(obj, refs)
}

// readable returns the owners of the object, none when they cannot be read.
func (s *OwnerStrategyAnnotation) readable(obj metav1.Object) []annotationRef {
	refs, err := s.read(obj)
	if err != nil {
		return nil
	}
	return refs
}

func (s *OwnerStrategyAnnotation) read(obj metav1.Object) ([]annotationRef, error) {
	value := obj.GetAnnotations()[s.annotationKey]
	if value == "" {
		return nil, nil
	}
	var refs []annotationRef
	if err := json.Unmarshal([]byte(value), &refs); err != nil {
		return nil, &MalformedAnnotationError{
			Object: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()},
			Key:    s.annotationKey,
			Err:    err,
		}
	}
	return refs, nil
}

func (s *OwnerStrategyAnnotation) write(obj metav1.Object, refs []annotationRef) {
	if len(refs) == 0 {
		s.store(obj, "")
		return
	}
	// A list of structs of strings and booleans always has a JSON form.
	value, _ := json.Marshal(refs)
	s.store(obj, string(value))
}

// store sets the annotation, and removes it when there is nothing to store. The
// map of the object may be shared, so it is not written to.
func (s *OwnerStrategyAnnotation) store(obj metav1.Object, value string) {
	old, exists := obj.GetAnnotations()[s.annotationKey]
	if old == value && exists == (value != "") {
		return
	}
	annotations := map[string]string{}
	maps.Copy(annotations, obj.GetAnnotations())
	delete(annotations, s.annotationKey)
	if value != "" {
		annotations[s.annotationKey] = value
	}
	obj.SetAnnotations(annotations)
}
