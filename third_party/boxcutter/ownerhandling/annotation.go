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

// OwnerStrategyAnnotation stores owners in one annotation, as a JSON list of
//
//	{"apiVersion","kind","name","namespace","uid","controller"}
//
// where controller is present only if it is true. The garbage collector does not
// see these owners, and they may be in any namespace.
//
// A malformed annotation is never overwritten: methods that add an owner fail with
// *MalformedAnnotationError, methods that read find no owner, and methods that
// remove an owner do nothing.
type OwnerStrategyAnnotation struct {
	scheme        *runtime.Scheme
	annotationKey string
}

// MalformedAnnotationError reports that the value of the owner annotation is not
// a list of owners.
type MalformedAnnotationError struct {
	// Object is the object with the annotation.
	Object types.NamespacedName
	// Key is the key of the annotation.
	Key string
	// Err is the cause.
	Err error
}

// Error names the object, the annotation and the error.
func (e *MalformedAnnotationError) Error() string {
	return fmt.Sprintf("reading the owners of %s in annotation %q: %v; correct or remove the annotation", e.Object, e.Key, e.Err)
}

// Unwrap returns the cause.
func (e *MalformedAnnotationError) Unwrap() error { return e.Err }

// NewAnnotation returns a strategy that stores owners under the given annotation
// key. The scheme supplies the kinds of typed owners.
func NewAnnotation(scheme *runtime.Scheme, annotationKey string) *OwnerStrategyAnnotation {
	return &OwnerStrategyAnnotation{scheme: scheme, annotationKey: annotationKey}
}

// annotationRef is the stored form of one owner.
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

// ownerReference returns the reference without the namespace:
// metav1.OwnerReference has none.
func (r annotationRef) ownerReference() metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: r.UID, BlockOwnerDeletion: new(true)}
	if r.Controller {
		ref.Controller = new(true)
	}
	return ref
}

// GetController returns the controller of obj, and false if it has none.
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

// CopyOwnerReferences replaces the annotation of objB by objA's annotation, unchanged.
func (s *OwnerStrategyAnnotation) CopyOwnerReferences(objA, objB metav1.Object) {
	s.store(objB, objA.GetAnnotations()[s.annotationKey])
}

// EnqueueRequestForOwner returns an event handler that enqueues the owners of an
// object with the given type, or only its controller. The mapper is not used. If
// the kind of ownerType cannot be determined, the handler enqueues nothing and
// logs the reason at each event.
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

// SetOwnerReference makes owner an owner of obj, but not its controller. It fails
// if the owner's kind cannot be determined, and with *MalformedAnnotationError if
// the existing owners cannot be parsed.
func (s *OwnerStrategyAnnotation) SetOwnerReference(owner, obj metav1.Object) error {
	return s.set(owner, obj, false)
}

// SetControllerReference makes owner the controller of obj. It fails with
// *controllerutil.AlreadyOwnedError if obj has another controller, and with the
// errors of SetOwnerReference.
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

// controlsBeside matches controllers other than the given owner.
func controlsBeside(owner annotationRef) func(annotationRef) bool {
	return func(ref annotationRef) bool { return ref.Controller && ref.identity() != owner.identity() }
}

// upsert adds the reference or replaces the one to the same object.
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

// RemoveOwner removes owner from the owners of obj. The annotation stays, if only with an empty list.
func (s *OwnerStrategyAnnotation) RemoveOwner(owner, obj metav1.Object) {
	refs, err := s.read(obj)
	if err != nil || refs == nil {
		return
	}
	matches := ownerMatcher(owner, s.scheme)
	s.write(obj, slices.DeleteFunc(refs, func(ref annotationRef) bool { return matches(ref.identity()) }))
}

// ReleaseController clears the controller flag of all owners of obj.
func (s *OwnerStrategyAnnotation) ReleaseController(obj metav1.Object) {
	refs, err := s.read(obj)
	if err != nil || refs == nil {
		return
	}
	for i := range refs {
		refs[i].Controller = false
	}
	s.write(obj, refs)
}

// readable returns the owners of the object, or none if the annotation is
// malformed.
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
	// Marshalling structs of strings and booleans cannot fail.
	value, _ := json.Marshal(refs)
	s.store(obj, string(value))
}

// store sets the annotation, or removes it if value is empty. It copies the
// annotations, because objects may share the map.
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
