// SPDX-License-Identifier: Apache-2.0

package ownerhandling

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// AnnotationEnqueueRequestForOwner is an event handler that enqueues the owners
// in the annotation of an object. Create it with
// OwnerStrategyAnnotation.EnqueueRequestForOwner; the zero value has no
// annotation key, enqueues nothing and logs an error at each event.
type AnnotationEnqueueRequestForOwner struct {
	// OwnerType is an object with the kind of the owners to enqueue.
	OwnerType client.Object
	// IsController limits the owners to the controller.
	IsController bool

	ownerKind schema.GroupKind
	strategy  *OwnerStrategyAnnotation
}

var _ handler.EventHandler = (*AnnotationEnqueueRequestForOwner)(nil)

var errNoStrategy = errors.New("mapping an object to its owners: the handler was not created by OwnerStrategyAnnotation.EnqueueRequestForOwner")

// Create enqueues the owners of the new object.
func (e *AnnotationEnqueueRequestForOwner) Create(
	ctx context.Context, evt event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.handler().Create(ctx, evt, q)
}

// Update enqueues the owners of the object before and after the change.
func (e *AnnotationEnqueueRequestForOwner) Update(
	ctx context.Context, evt event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.handler().Update(ctx, evt, q)
}

// Delete enqueues the owners of the deleted object.
func (e *AnnotationEnqueueRequestForOwner) Delete(
	ctx context.Context, evt event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.handler().Delete(ctx, evt, q)
}

// Generic enqueues the owners of the object.
func (e *AnnotationEnqueueRequestForOwner) Generic(
	ctx context.Context, evt event.GenericEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	e.handler().Generic(ctx, evt, q)
}

// handler returns a handler of controller-runtime. It removes duplicates and
// sets priorities.
func (e *AnnotationEnqueueRequestForOwner) handler() handler.EventHandler {
	if e.strategy == nil {
		return logAtEachEvent(errNoStrategy)
	}
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		return e.requests(obj)
	})
}

func (e *AnnotationEnqueueRequestForOwner) requests(obj client.Object) []reconcile.Request {
	if obj == nil {
		return nil
	}
	var requests []reconcile.Request
	for _, ref := range e.strategy.readable(obj) {
		if ref.identity().GroupKind != e.ownerKind || (e.IsController && !ref.Controller) {
			continue
		}
		requests = append(requests, reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name},
		})
	}
	return requests
}

// logAtEachEvent returns a handler that only logs the error that prevented the
// creation of the real one.
func logAtEachEvent(err error) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		log.FromContext(ctx).Error(err, "Failed to map event to owners")
		return nil
	})
}
