// SPDX-License-Identifier: Apache-2.0

package managedcache

import (
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// removableInformer is an informer that releases the waiters for its sync when it is
// removed. Otherwise they would wait forever: controller-runtime has a waiting
// goroutine for each informer of a cache that is limited to namespaces.
type removableInformer struct {
	toolscache.SharedIndexInformer
	removed <-chan struct{}
}

// HasSyncedChecker returns a checker that is done when the informer is synced or
// removed.
func (e *removableInformer) HasSyncedChecker() toolscache.DoneChecker {
	return firstDone(e.SharedIndexInformer.HasSyncedChecker(), e.removed)
}

// AddEventHandler adds a handler.
func (e *removableInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return e.register(e.SharedIndexInformer.AddEventHandler(h))
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (e *removableInformer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return e.register(e.SharedIndexInformer.AddEventHandlerWithResyncPeriod(h, period))
}

// AddEventHandlerWithOptions adds a handler.
func (e *removableInformer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return e.register(e.SharedIndexInformer.AddEventHandlerWithOptions(h, options))
}

func (e *removableInformer) register(r toolscache.ResourceEventHandlerRegistration, err error) (toolscache.ResourceEventHandlerRegistration, error) {
	if err != nil {
		return nil, err
	}
	return &removableRegistration{ResourceEventHandlerRegistration: r, removed: e.removed}, nil
}

// RemoveEventHandler removes a handler.
func (e *removableInformer) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	if ours, ok := r.(*removableRegistration); ok {
		r = ours.ResourceEventHandlerRegistration
	}
	return e.SharedIndexInformer.RemoveEventHandler(r)
}

// removableRegistration is a handler registration that is also done when its
// informer is removed.
type removableRegistration struct {
	toolscache.ResourceEventHandlerRegistration
	removed <-chan struct{}
}

// HasSyncedChecker returns a checker that is done when the handler is synced or
// its informer is removed.
func (e *removableRegistration) HasSyncedChecker() toolscache.DoneChecker {
	return firstDone(e.ResourceEventHandlerRegistration.HasSyncedChecker(), e.removed)
}

// firstOf is a checker that is done when the first of two checkers is done.
type firstOf struct {
	toolscache.DoneChecker
	done chan struct{}
}

// Done returns a channel that is closed when the first checker is done.
func (f *firstOf) Done() <-chan struct{} { return f.done }

func firstDone(checker toolscache.DoneChecker, removed <-chan struct{}) toolscache.DoneChecker {
	if toolscache.IsDone(checker) {
		return checker
	}
	f := &firstOf{DoneChecker: checker, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		select {
		case <-checker.Done():
		case <-removed:
		}
	}()
	return f
}
