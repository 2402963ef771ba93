// SPDX-License-Identifier: Apache-2.0

package installer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pkg.package-operator.run/boxcutter/ownerhandling"
)

// Owners writes and reads the owners of an object in an annotation. A version that
// adopts an object replaces the previous version.
//
// boxcutter keeps the previous version as an owner that is not the controller, and
// removes it from each object when that version is torn down. This takes a write per
// object, and the next version has to migrate the fields that this write holds, which
// takes another one. No decision needs that owner: a version tears down the objects
// that it controls.
type Owners struct {
	*ownerhandling.OwnerStrategyAnnotation
}

// ReleaseController removes the version that controls obj from its owners. Other owners
// stay, without being the controller.
func (o Owners) ReleaseController(obj metav1.Object) {
	if controller, found := o.GetController(obj); found && isVersion(controller) {
		o.RemoveOwner(ownerOf(controller.Name), obj)
	}
	o.OwnerStrategyAnnotation.ReleaseController(obj)
}
