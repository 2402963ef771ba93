// SPDX-License-Identifier: Apache-2.0

package ownerhandling

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrMultipleKinds reports that the scheme has a Go type under more than one
// kind, so that the kind of the object is ambiguous.
var ErrMultipleKinds = errors.New("multiple kinds error: expected exactly one kind")

// kindOf returns the kind in the object if it is unstructured or metadata, else the
// kind of its Go type in the scheme.
func kindOf(obj any, scheme *runtime.Scheme) (schema.GroupVersionKind, error) {
	ro, ok := obj.(runtime.Object)
	if !ok {
		return schema.GroupVersionKind{}, fmt.Errorf("finding the kind of the owner: %T is not a runtime.Object", obj)
	}
	if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return declaredKind(meta)
	}
	kinds, _, err := scheme.ObjectKinds(ro)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("finding the kind of the owner: %w", err)
	}
	if len(kinds) != 1 {
		return schema.GroupVersionKind{}, fmt.Errorf("finding the kind of the owner: %w, %T is %v", ErrMultipleKinds, obj, kinds)
	}
	return kinds[0], nil
}

func declaredKind(meta *metav1.PartialObjectMetadata) (schema.GroupVersionKind, error) {
	gvk := meta.GroupVersionKind()
	if gvk.Kind == "" || gvk.Version == "" {
		return gvk, fmt.Errorf("finding the kind of the owner: apiVersion or kind of %T %q is not set", meta, meta.GetName())
	}
	return gvk, nil
}

// identity identifies the object of a reference.
type identity struct {
	schema.GroupKind
	name, uid string
}

func identityOf(apiVersion, kind, name, uid string) identity {
	// An invalid apiVersion has no group and is compared as a whole.
	group := apiVersion
	if gv, err := schema.ParseGroupVersion(apiVersion); err == nil {
		group = gv.Group
	}
	return identity{GroupKind: schema.GroupKind{Group: group, Kind: kind}, name: name, uid: uid}
}

func refIdentity(ref metav1.OwnerReference) identity {
	return identityOf(ref.APIVersion, ref.Kind, ref.Name, string(ref.UID))
}

// ownerMatcher returns a function that reports whether a reference is to the
// owner. If the owner's kind cannot be determined, name and UID suffice, because
// UIDs are unique.
func ownerMatcher(owner metav1.Object, scheme *runtime.Scheme) func(identity) bool {
	name, uid := owner.GetName(), string(owner.GetUID())
	gvk, err := kindOf(owner, scheme)
	if err != nil {
		return func(id identity) bool { return uid != "" && id.name == name && id.uid == uid }
	}
	want := identity{GroupKind: gvk.GroupKind(), name: name, uid: uid}
	return func(id identity) bool { return id == want }
}
