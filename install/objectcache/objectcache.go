// SPDX-License-Identifier: Apache-2.0

// Package objectcache keeps CustomResourceDefinitions compressed in an informer cache.
package objectcache

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pkg.package-operator.run/boxcutter/managedcache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/crdpack"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Schemas of CRDs are nearly all of the installed data, and take about ten times as
// much memory decoded as encoded. They are needed only while a CRD is compared. So
// the cache holds the metadata and the compressed CRD, and readers get the whole
// CRD. It includes the managed fields of other managers, because they decide
// whether a field is reverted.

// compressed is the field of a cached CRD that holds the whole CRD, compressed.
const compressed = "compressed"

// Compress is the transform function of the cache. It does not modify its argument.
func Compress(cached any) (any, error) {
	crd, ok := cached.(*unstructured.Unstructured)
	if !ok || !object.IsCRD(crd) || crd.Object[compressed] != nil {
		return cached, nil
	}
	packed, err := crdpack.Compress(crd.Object)
	if err != nil {
		return nil, fmt.Errorf("compressing CRD %s: %w", crd.GetName(), err)
	}
	small := &unstructured.Unstructured{Object: map[string]any{compressed: packed}}
	small.SetGroupVersionKind(crd.GroupVersionKind())
	small.SetName(crd.GetName())
	small.SetUID(crd.GetUID())
	small.SetResourceVersion(crd.GetResourceVersion())
	small.SetGeneration(crd.GetGeneration())
	small.SetLabels(crd.GetLabels())
	return small, nil
}

// decompress restores an object that Compress has compressed.
func decompress(object runtime.Object) error {
	crd, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	small, ok := crd.Object[compressed].(string)
	if !ok {
		return nil
	}
	whole := map[string]any{}
	if err := crdpack.Decompress(small, &whole); err != nil {
		return fmt.Errorf("decompressing CRD %s: %w", crd.GetName(), err)
	}
	crd.Object = whole
	return nil
}

// Cache reads whole objects from a cache whose transform is Compress.
type Cache struct{ managedcache.TrackingCache }

// Get reads an object from the cache.
func (c Cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.TrackingCache.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	return decompress(obj)
}

// List reads objects from the cache.
func (c Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.TrackingCache.List(ctx, list, opts...); err != nil {
		return err
	}
	return meta.EachListItem(list, decompress)
}
