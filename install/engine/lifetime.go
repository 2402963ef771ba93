// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"sync"

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
