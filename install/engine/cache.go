// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter/managedcache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errCacheEnded is the error of calls after the end of the cache.
var errCacheEnded = errors.New("the cache of installed objects has ended")

// outlasting is a cache that ends after its last call. In the original boxcutter a call waits for ever if the cache ends
// meanwhile, and the program with it.
type outlasting struct {
	managedcache.TrackingCache

	calls sync.RWMutex // held for reading during each call
	ended bool
}

// Start runs the cache until the context has ended and every call has returned.
func (o *outlasting) Start(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	result := make(chan error, 1)
	go func() { result <- o.TrackingCache.Start(running) }()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	o.calls.Lock()
	o.ended = true
	o.calls.Unlock()
	stop()
	return <-result
}

// during runs a call, unless the cache has ended.
func (o *outlasting) during(call func() error) error {
	o.calls.RLock()
	defer o.calls.RUnlock()
	if o.ended {
		return errCacheEnded
	}
	return call()
}

// Get reads an object.
func (o *outlasting) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return o.during(func() error { return o.TrackingCache.Get(ctx, key, object, options...) })
}

// List reads objects.
func (o *outlasting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return o.during(func() error { return o.TrackingCache.List(ctx, list, options...) })
}

// Watch watches the kinds of an owner.
func (o *outlasting) Watch(ctx context.Context, owner client.Object, kinds sets.Set[schema.GroupVersionKind]) error {
	return o.during(func() error { return o.TrackingCache.Watch(ctx, owner, kinds) })
}

// Free ends the watches that only this owner needed.
func (o *outlasting) Free(ctx context.Context, owner client.Object) error {
	return o.during(func() error { return o.TrackingCache.Free(ctx, owner) })
}

// Reader reads installed objects from a cache that holds cluster-scoped objects and those
// in the providers' namespaces. It reads objects in other namespaces from the API server.
// There it treats a Forbidden error as NotFound: without read access to a namespace,
// the installer has created nothing in it.
type Reader struct {
	// Reader is the cache.
	client.Reader
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Namespaces are the providers' namespaces.
	Namespaces Namespaces
}

// Namespaces are the namespaces in the cache of installed objects.
type Namespaces []string

// has reports whether the cache covers a namespace; empty for cluster-scoped objects.
func (n Namespaces) has(namespace string) bool {
	return namespace == "" || slices.Contains(n, namespace)
}

// Get reads an object. With client.UnsafeDisableDeepCopy, it shares its fields with the cache.
func (r Reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if r.Namespaces.has(key.Namespace) {
		err := r.Reader.Get(ctx, key, object, options...)
		cached, ok := object.(*unstructured.Unstructured)
		if shared := (&client.GetOptions{}).ApplyOptions(options).UnsafeDisableDeepCopy; err == nil && ok && shared == nil {
			*cached = *cached.DeepCopy()
		}
		return err
	}
	err := r.Live.Get(ctx, key, object, options...)
	if apierrors.IsForbidden(err) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: object.GetObjectKind().GroupVersionKind().Kind}, key.String())
	}
	return err
}
