// SPDX-License-Identifier: Apache-2.0

package managedcache

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// AccessManagerKey identifies an owner or a user: an object of one kind, by
// namespace, name and UID.
type AccessManagerKey struct {
	schema.GroupVersionKind
	client.ObjectKey

	// UID tells an object from an earlier one with the same name.
	UID types.UID
}

// keyOf identifies an object. Its kind may be missing in itself if the scheme knows it.
func keyOf(obj client.Object, scheme *runtime.Scheme) (AccessManagerKey, error) {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return AccessManagerKey{}, fmt.Errorf("finding the kind of %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
	return AccessManagerKey{GroupVersionKind: gvk, ObjectKey: client.ObjectKeyFromObject(obj), UID: obj.GetUID()}, nil
}
