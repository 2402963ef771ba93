// SPDX-License-Identifier: Apache-2.0

package engine

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pkg.package-operator.run/boxcutter/ownerhandling"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

// Owners writes and reads the owners of an object in an annotation. A version that
// adopts an object replaces the previous version.
//
// boxcutter keeps the previous version as an owner that is not the controller, and
// removes it from each object when that version is torn down. This costs one write per
// object, and the next version needs another write to migrate the fields of the first.
// The additional owner has no use: a version tears down only objects that it controls.
type Owners struct {
	*ownerhandling.OwnerStrategyAnnotation
	// Namespace is the namespace of the installer. Versions of an installation in another namespace can have the same names.
	Namespace string
}

// NewOwners returns the owners of the installer in a namespace. The scheme has the kind ConfigMap.
func NewOwners(scheme *runtime.Scheme, namespace string) Owners {
	return Owners{ownerhandling.NewAnnotation(scheme, v1alpha1.OwnersAnnotation), namespace}
}

// ReleaseController removes the version that controls obj from its owners. The other
// owners stay, and none of them becomes the controller.
func (o Owners) ReleaseController(obj metav1.Object) {
	if controller, found := o.GetController(obj); found && isVersion(controller) {
		o.RemoveOwner(o.ownerOf(controller.Name), obj)
	}
	o.OwnerStrategyAnnotation.ReleaseController(obj)
}

// RemoveOwner removes an owner. It also removes the annotation of an object without further
// owners: some versions of boxcutter leave an empty list.
func (o Owners) RemoveOwner(owner, obj metav1.Object) {
	o.OwnerStrategyAnnotation.RemoveOwner(owner, obj)
	if annotations := obj.GetAnnotations(); annotations[v1alpha1.OwnersAnnotation] == "[]" {
		delete(annotations, v1alpha1.OwnersAnnotation)
		obj.SetAnnotations(annotations)
	}
}

// Controls reports whether a version controls an object.
func (o Owners) Controls(version string, obj metav1.Object) bool {
	return o.IsController(o.ownerOf(version), obj)
}

// Remove removes a version from the owners of an object.
func (o Owners) Remove(version string, obj metav1.Object) { o.RemoveOwner(o.ownerOf(version), obj) }

// Set makes a version the controller of an object.
func (o Owners) Set(version string, obj metav1.Object) error {
	return o.SetControllerReference(o.ownerOf(version), obj)
}

// ownerOf returns the owner of the objects of a version.
func (o Owners) ownerOf(version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: revision.OwnerKind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace,
			Name:      version,
			UID:       revision.OwnerUID(version),
		},
	}
}

// VersionOwner returns a version as the owner of an object.
func VersionOwner(version string) Owner { return Owner{Kind: revision.OwnerKind, Name: version} }

// isVersion reports whether an owner is a version of this installer.
func isVersion(owner metav1.OwnerReference) bool {
	return owner.Kind == revision.OwnerKind && owner.UID == revision.OwnerUID(owner.Name)
}
