// SPDX-License-Identifier: Apache-2.0

package managedcache

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var errNoObject = errors.New("object is not set")

// ownerRefGetter returns the watchers of a kind. ObjectBoundAccessManager
// implements it.
type ownerRefGetter interface {
	GetWatchersForGVK(gvk schema.GroupVersionKind) []AccessManagerKey
}

var _ handler.EventHandler = (*EnqueueWatchingObjects)(nil)

// EnqueueWatchingObjects is an event handler that enqueues a request, with
// namespace and name, for each watcher of the object's kind, regardless of the
// owner of the object.
type EnqueueWatchingObjects struct {
	// WatcherRefGetter returns the watchers of a kind.
	WatcherRefGetter ownerRefGetter

	// WatcherType is an object with the kind of the watchers to enqueue. Other
	// watchers are ignored. The API version does not matter.
	WatcherType runtime.Object

	scheme *runtime.Scheme
}

// NewEnqueueWatchingObjects returns an event handler. The scheme supplies the
// kinds of watchers and objects without TypeMeta. Events of unknown kinds are
// logged as errors and ignored.
func NewEnqueueWatchingObjects(watcherRefGetter ownerRefGetter,
	watcherType runtime.Object,
	scheme *runtime.Scheme,
) *EnqueueWatchingObjects {
	return &EnqueueWatchingObjects{WatcherRefGetter: watcherRefGetter, WatcherType: watcherType, scheme: scheme}
}

// Create enqueues the watchers of the kind of a new object.
func (e *EnqueueWatchingObjects) Create(ctx context.Context, evt event.CreateEvent,
	q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.enqueue(ctx, evt.Object, q)
}

// Update enqueues the watchers of the kind of a changed object.
func (e *EnqueueWatchingObjects) Update(ctx context.Context, evt event.UpdateEvent,
	q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.enqueue(ctx, evt.ObjectNew, q)
}

// Delete enqueues the watchers of the kind of a deleted object.
func (e *EnqueueWatchingObjects) Delete(ctx context.Context, evt event.DeleteEvent,
	q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.enqueue(ctx, evt.Object, q)
}

// Generic enqueues the watchers of the kind of an object.
func (e *EnqueueWatchingObjects) Generic(ctx context.Context, evt event.GenericEvent,
	q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.enqueue(ctx, evt.Object, q)
}

func (e *EnqueueWatchingObjects) enqueue(ctx context.Context, obj client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	gvk, err := e.kind(obj)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to enqueue watchers: finding the kind of the object")
		return
	}
	watcher, err := e.kind(e.WatcherType)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to enqueue watchers: finding the kind of the watchers")
		return
	}
	for _, key := range e.WatcherRefGetter.GetWatchersForGVK(gvk) {
		if key.GroupKind() == watcher.GroupKind() {
			q.Add(reconcile.Request{NamespacedName: key.ObjectKey})
		}
	}
}

// kind returns the kind in an object's TypeMeta, or else the kind of its Go type in
// the scheme.
func (e *EnqueueWatchingObjects) kind(obj runtime.Object) (schema.GroupVersionKind, error) {
	if obj == nil {
		return schema.GroupVersionKind{}, errNoObject
	}
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() || e.scheme == nil {
		return gvk, nil
	}
	return apiutil.GVKForObject(obj, e.scheme)
}
