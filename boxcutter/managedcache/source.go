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

// noticeInterval is how often at most the sources are told that a kind is
// refused. It keeps a controller that then starts the informer again from
// running in circles when a kind may be listed but not watched.
const noticeInterval = time.Minute

var errNoHandler = errors.New("starting a source: handler is not set")

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// startFunc is a source that is nothing but its Start.
type startFunc func(context.Context, queue) error

// Start connects a controller's queue with the source until ctx ends.
func (f startFunc) Start(ctx context.Context, q queue) error { return f(ctx, q) }

// String is the source's name in logs.
func (f startFunc) String() string { return "managed cache" }

// Source is a source of the events of all informers there are and will be.
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
			c.log.Error(err, "Disconnecting an informer from a source", "kind", i.key.String())
		}
	}
}

// mayNotify reports whether the sources may be notified of a rejection again. It needs
// the lock.
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
			c.log.Error(err, "Making a generic event", "kind", key.String())
			return
		}
		f.generic(event.GenericEvent{Object: obj})
	}
}

// subscription is a source that was started. It lives as long as its ctx, which is the
// controller's.
type subscription struct {
	ctx        context.Context
	handler    handler.EventHandler
	predicates []predicate.Predicate
	queue      queue
	// release lets go of ctx when the cache ends before.
	release func() bool
	// registrations are guarded by the lock of the cache.
	registrations map[*informer]toolscache.ResourceEventHandlerRegistration
}

// attach connects an informer with the source.
func (f *subscription) attach(i *informer) error {
	capture := &registrationRecorder{Informer: i.handle}
	src := &source.Informer{Informer: capture, Handler: f.handler, Predicates: f.predicates}
	if err := src.Start(f.ctx, f.queue); err != nil {
		return fmt.Errorf("connecting %s with a source: %w", i.key, err)
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

// registrationRecorder keeps the registration of the handler that is added, so that it can
// be removed again.
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
