// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// existing reads objects past the cache. Most objects that the cache lacks do not exist: a first installation has hundreds. So it lists
// the names of each kind in a namespace once, and reads only objects that exist. It is safe for concurrent use.
type existing struct {
	live client.Reader

	mutex sync.Mutex
	names map[kindIn]func() (sets.Set[string], error)
}

// kindIn is a kind of objects in a namespace; the namespace is empty if they have none.
type kindIn struct {
	kind      schema.GroupVersionKind
	namespace string
}

// get reads an object. Without the permission to list its kind, it reads the object without a list.
func (e *existing) get(ctx context.Context, object *unstructured.Unstructured, key client.ObjectKey) error {
	kind := object.GroupVersionKind()
	names, err := e.namesOf(ctx, kindIn{kind, key.Namespace})
	switch {
	case apierrors.IsForbidden(err), err == nil && names.Has(key.Name):
		return e.live.Get(ctx, key, object)
	case err != nil:
		return err
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, key.Name)
}

// namesOf returns the names of the objects that exist, from one list.
func (e *existing) namesOf(ctx context.Context, of kindIn) (sets.Set[string], error) {
	e.mutex.Lock()
	if e.names == nil {
		e.names = map[kindIn]func() (sets.Set[string], error){}
	}
	list := e.names[of]
	if list == nil {
		list = sync.OnceValues(func() (sets.Set[string], error) { return listNames(ctx, e.live, of) })
		e.names[of] = list
	}
	e.mutex.Unlock()
	return list()
}

// listNames lists the names of objects, in pages: a cluster can have thousands.
func listNames(ctx context.Context, live client.Reader, of kindIn) (sets.Set[string], error) {
	const page = 500
	names := sets.New[string]()
	list := &metav1.PartialObjectMetadataList{}
	for {
		list.SetGroupVersionKind(of.kind.GroupVersion().WithKind(of.kind.Kind + "List"))
		if err := live.List(ctx, list, client.InNamespace(of.namespace), client.Limit(page), client.Continue(list.Continue)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			names.Insert(list.Items[i].Name)
		}
		if list.Continue == "" {
			return names, nil
		}
	}
}
