// SPDX-License-Identifier: Apache-2.0

package types

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ObjectRef identifies an object by kind, namespace and name.
type ObjectRef struct {
	schema.GroupVersionKind
	client.ObjectKey
}

// ToObjectRef returns the reference of an object, with the kind in its TypeMeta.
// The reference of nil is the zero value.
func ToObjectRef(obj client.Object) ObjectRef {
	if obj == nil {
		return ObjectRef{}
	}
	return ObjectRef{
		GroupVersionKind: obj.GetObjectKind().GroupVersionKind(),
		ObjectKey:        client.ObjectKeyFromObject(obj),
	}
}

// String returns "<group>/<version>, Kind=<kind> <namespace>/<name>".
func (oid ObjectRef) String() string {
	return fmt.Sprintf("%s %s", oid.GroupVersionKind, oid.ObjectKey)
}
