// SPDX-License-Identifier: Apache-2.0

package managedcache

import (
	"context"
	"errors"
	"fmt"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// noticeInterval is the minimum time between two events for the same rejected
// kind. Without it, a controller that restarts the informer at each event would
// loop if it may list the kind but not watch it.
const noticeInterval = time.Minute

var errNoHandler = errors.New("starting a source: handler is not set")

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// startFunc implements source.Source with a function.
type startFunc func(context.Context, queue) error

// Start calls the function.
func (f startFunc) Start(ctx context.Context, q queue) error { return f(ctx, q) }

// String returns the name of the source in logs.
func (f startFunc) String() string { return "managed cache" }

// Source returns a source of the events of all current and future informers.
func (c *trackingCache) Source(h handler.EventHandler, predicates ...predicate.Predicate) source.Source {
	return startFunc(func(ctx context.Context, q queue) error {
		if h == nil {
			return errNoHandler
		}
		f := &subscription{ctx: ctx, handler: h, predicates: predicates, queue: q, registrations: map[*informer]toolscache.ResourceEventHandlerRegistration{}}
		if err := c.connect(f); err != nil {
			c.disconnect(f)
			return fmt.Errorf("starting a source: %w", err)
		}
		return nil
	})
}

func (c *trackingCache) connect(f *subscription) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return errStopped
	}
	c.subscriptions[f] = struct{}{}
	f.release = context.AfterFunc(f.ctx, func() { c.disconnect(f) })
	var errs []error
	for _, i := range c.informers {
		errs = append(errs, f.attach(i))
	}
	return errors.Join(errs...)
}

func (c *trackingCache) disconnect(f *subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.subscriptions, f)
	if f.release != nil {
		f.release()
	}
	for i, registration := range f.registrations {
		if err := i.handle.RemoveEventHandler(registration); err != nil {
			c.log.Error(err, "Failed to disconnect an informer from a source", "kind", i.key.String())
		}
	}
}

// mayNotify reports whether the sources may be notified of a rejection again. The
// caller must hold the lock.
func (c *trackingCache) mayNotify(key informerKey) bool {
	now := time.Now()
	if last, ok := c.notifiedAt[key]; ok && now.Sub(last) < noticeInterval {
		return false
	}
	c.notifiedAt[key] = now
	return true
}

// publishGeneric notifies the sources that a kind is no longer watched.
func (c *trackingCache) publishGeneric(subscriptions []*subscription, key informerKey) {
	for _, f := range subscriptions {
		obj, err := key.object(c.scheme)
		if err != nil {
			c.log.Error(err, "Failed to create a generic event", "kind", key.String())
			return
		}
		f.generic(event.GenericEvent{Object: obj})
	}
}

// subscription is a started source. It ends with its ctx, the context of the
// controller.
type subscription struct {
	ctx        context.Context
	handler    handler.EventHandler
	predicates []predicate.Predicate
	queue      queue
	// release stops waiting for ctx if the cache ends first.
	release func() bool
	// registrations is guarded by the lock of the cache.
	registrations map[*informer]toolscache.ResourceEventHandlerRegistration
}

// attach connects an informer to the source.
func (f *subscription) attach(i *informer) error {
	capture := &registrationRecorder{Informer: i.handle}
	src := &source.Informer{Informer: capture, Handler: f.handler, Predicates: f.predicates}
	if err := src.Start(f.ctx, f.queue); err != nil {
		return fmt.Errorf("connecting the informer of %s to a source: %w", i.key, err)
	}
	f.registrations[i] = capture.registration
	return nil
}

func (f *subscription) generic(evt event.GenericEvent) {
	for _, p := range f.predicates {
		if !p.Generic(evt) {
			return
		}
	}
	f.handler.Generic(f.ctx, evt, f.queue)
}

// registrationRecorder records the registration of the added handler, so that it can be
// removed.
type registrationRecorder struct {
	cache.Informer
	registration toolscache.ResourceEventHandlerRegistration
}

// AddEventHandlerWithOptions adds a handler.
func (c *registrationRecorder) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	registration, err := c.Informer.AddEventHandlerWithOptions(h, options)
	c.registration = registration
	return registration, err
}
