// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pkg.package-operator.run/boxcutter/ownerhandling"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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
}

// ReleaseController removes the version that controls obj from its owners. The other
// owners stay, and none of them becomes the controller.
func (o Owners) ReleaseController(obj metav1.Object) {
	if controller, found := o.GetController(obj); found && isVersion(controller) {
		o.RemoveOwner(ownerOf(controller.Name), obj)
	}
	o.OwnerStrategyAnnotation.ReleaseController(obj)
}

// RemoveOwner removes owner from the owners of obj. boxcutter leaves an empty list in the annotation of an object without
// owners, such as a retained CRD; the annotation is removed.
func (o Owners) RemoveOwner(owner, obj metav1.Object) {
	o.OwnerStrategyAnnotation.RemoveOwner(owner, obj)
	annotations := maps.Clone(obj.GetAnnotations())
	maps.DeleteFunc(annotations, func(key, value string) bool { return key == v1alpha1.OwnersAnnotation && value == "[]" })
	obj.SetAnnotations(annotations)
}
