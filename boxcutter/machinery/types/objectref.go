// SPDX-License-Identifier: Apache-2.0

package types

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ObjectRef names an object: its kind, namespace and name.
type ObjectRef struct {
	schema.GroupVersionKind
	client.ObjectKey
}

// ToObjectRef names the given object. Its kind is what the object itself says.
func ToObjectRef(obj client.Object) ObjectRef {
	return ObjectRef{
		GroupVersionKind: obj.GetObjectKind().GroupVersionKind(),
		ObjectKey:        client.ObjectKeyFromObject(obj),
	}
}

// String is "<Kind>.<group/version> <namespace>/<name>".
func (oid ObjectRef) String() string {
	return fmt.Sprintf("%s.%s %s", oid.Kind, oid.GroupVersion(), oid.ObjectKey)
}
