// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// OwnerKind is the kind of the owners of installed objects: revision ConfigMaps.
const OwnerKind = "ConfigMap"

// OwnerUID returns the UID that the objects of a version name. It is derived from the version's name, not from the revision ConfigMap:
// the objects keep their owner when a deleted ConfigMap is recreated. Names are never reused.
func OwnerUID(version string) types.UID { return types.UID("revision-" + version) }

// Owner returns the version of the installer in a namespace that controls an object; empty if there is none. Unlike the owner handling of
// boxcutter, it compares the namespace: an installation with another namespace has versions of the same name.
func Owner(namespace string, obj metav1.Object) string {
	var owners []struct {
		Kind, Namespace, Name string
		UID                   types.UID
		Controller            bool
	}
	if err := json.Unmarshal([]byte(obj.GetAnnotations()[v1alpha1.OwnersAnnotation]), &owners); err != nil {
		return ""
	}
	for _, owner := range owners {
		if owner.Controller && owner.Namespace == namespace && owner.Kind == OwnerKind && owner.UID == OwnerUID(owner.Name) {
			return owner.Name
		}
	}
	return ""
}
