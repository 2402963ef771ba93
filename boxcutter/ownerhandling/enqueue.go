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

// AnnotationEnqueueRequestForOwner is an event handler that maps an object to
// the owners named in its annotation. It is made by
// OwnerStrategyAnnotation.EnqueueRequestForOwner; one made otherwise knows no
// annotation, maps to nothing and logs that at each event.
type AnnotationEnqueueRequestForOwner struct {
	// OwnerType is an object of the kind of owners that are asked for.
	OwnerType client.Object
	// IsController leaves out owners that are not the controller.
	IsController bool

	ownerKind schema.GroupKind
	strategy  *OwnerStrategyAnnotation
}

var _ handler.EventHandler = (*AnnotationEnqueueRequestForOwner)(nil)

var errNoStrategy = errors.New("mapping an object to its owners: the handler was not made by OwnerStrategyAnnotation.EnqueueRequestForOwner")

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

// Delete enqueues the owners of the object that is gone.
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

// handler leaves duplicates and priorities to controller-runtime.
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

// logAtEachEvent is the handler that stands in where none could be made.
func logAtEachEvent(err error) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		log.FromContext(ctx).Error(err, "Events cannot be mapped to owners")
		return nil
	})
}
