// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"

	"github.com/klauspost/compress/s2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"pkg.package-operator.run/boxcutter/managedcache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Nearly all that is installed is the schemas of CRDs, as plain maps and strings
// some ten times the size of their text. They are read when a CRD is compared, a
// moment in every run, and lie in the cache for ever. So the cache holds a CRD
// compressed, beside the metadata that it is found by, and whoever reads it gets
// the whole CRD. Nothing is left out, not even the managed fields of others: what
// decides whether a field is taken back from somebody is who holds it.

var customResourceDefinition = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// compressed is the field of a CRD in the cache that holds all of it.
const compressed = "compressed"

// compact is the transform of the cache. It does not change the object that it is given.
func compact(object any) (any, error) {
	crd, ok := object.(*unstructured.Unstructured)
	if !ok || crd.GroupVersionKind().GroupKind() != customResourceDefinition || crd.Object[compressed] != nil {
		return object, nil
	}
	content, err := crd.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("compressing CRD %s: %w", crd.GetName(), err)
	}
	small := &unstructured.Unstructured{Object: map[string]any{compressed: string(s2.EncodeBetter(nil, content))}}
	small.SetGroupVersionKind(crd.GroupVersionKind())
	small.SetName(crd.GetName())
	small.SetUID(crd.GetUID())
	small.SetResourceVersion(crd.GetResourceVersion())
	small.SetGeneration(crd.GetGeneration())
	small.SetLabels(crd.GetLabels())
	return small, nil
}

// inflate gives an object from the cache back what compact took away.
func inflate(object runtime.Object) error {
	crd, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	small, ok := crd.Object[compressed].(string)
	if !ok {
		return nil
	}
	content, err := s2.Decode(nil, []byte(small))
	if err != nil {
		return fmt.Errorf("decompressing CRD %s: %w", crd.GetName(), err)
	}
	whole := map[string]any{}
	if err := json.Unmarshal(content, &whole); err != nil {
		return fmt.Errorf("decoding CRD %s: %w", crd.GetName(), err)
	}
	crd.Object = whole
	return nil
}

// compactCache reads whole objects from a cache whose transform is compact.
type compactCache struct{ managedcache.TrackingCache }

// Get reads an object from the cache.
func (c compactCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.TrackingCache.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	return inflate(obj)
}

// List reads objects from the cache.
func (c compactCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.TrackingCache.List(ctx, list, opts...); err != nil {
		return err
	}
	return meta.EachListItem(list, inflate)
}
