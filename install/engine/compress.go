// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/crdpack"
)

// A decoded object takes several times as much memory as its JSON, most of it for the
// schema of a CRD or for the managed fields, and is needed only while it is compared. So
// the cache holds what identifies the object, and its compressed JSON; readers get the
// whole object. It includes the managed fields of other managers, because they decide
// whether a field is reverted.

// compressed is the field of a cached object that holds the compressed JSON of the whole
// object. It is a json.Number: a deep copy keeps it, and no decoded object has one, so the
// content of an object never looks compressed.
const compressed = "compressed"

// compress is the transform function of the cache. It does not modify its argument. The handlers of events see its result, and
// read the owners.
func compress(cached any) (any, error) {
	whole, ok := cached.(*unstructured.Unstructured)
	if !ok {
		return cached, nil
	}
	if _, already := packed(whole); already {
		return cached, nil
	}
	content, err := crdpack.Compress(whole.Object)
	if err != nil {
		return nil, fmt.Errorf("compressing %s %s: %w", whole.GetKind(), client.ObjectKeyFromObject(whole), err)
	}
	small := &unstructured.Unstructured{Object: map[string]any{compressed: json.Number(content)}}
	small.SetGroupVersionKind(whole.GroupVersionKind())
	small.SetNamespace(whole.GetNamespace())
	small.SetName(whole.GetName())
	small.SetUID(whole.GetUID())
	small.SetResourceVersion(whole.GetResourceVersion())
	small.SetGeneration(whole.GetGeneration())
	small.SetLabels(whole.GetLabels())
	if owners, owned := whole.GetAnnotations()[v1alpha1.OwnersAnnotation]; owned {
		small.SetAnnotations(map[string]string{v1alpha1.OwnersAnnotation: owners})
	}
	return small, nil
}

// packed returns the compressed JSON of an object, and whether compress has compressed it.
func packed(obj *unstructured.Unstructured) (string, bool) {
	content, is := obj.Object[compressed].(json.Number)
	return string(content), is
}

// decompress restores an object that compress has compressed.
func decompress(object runtime.Object) error {
	small, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	content, ok := packed(small)
	if !ok {
		return nil
	}
	whole := map[string]any{}
	if err := crdpack.Decompress(content, &whole); err != nil {
		return fmt.Errorf("decompressing %s %s: %w", small.GetKind(), client.ObjectKeyFromObject(small), err)
	}
	small.Object = whole
	return nil
}

// decompressing reads whole objects from a cache whose transform is compress.
type decompressing struct{ client.Reader }

// Get reads an object from the cache.
func (d decompressing) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := d.Reader.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	return decompress(obj)
}

// List reads objects from the cache.
func (d decompressing) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := d.Reader.List(ctx, list, opts...); err != nil {
		return err
	}
	return meta.EachListItem(list, decompress)
}
