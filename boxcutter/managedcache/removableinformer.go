// SPDX-License-Identifier: Apache-2.0

package managedcache

import (
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// ending is an informer that lets go of those who wait for it to sync when it is
// removed before. Else they would wait forever, as controller-runtime does in a
// goroutine for each informer of a cache that is confined to namespaces.
type ending struct {
	toolscache.SharedIndexInformer
	removed <-chan struct{}
}

// HasSyncedChecker is done when the informer is synced or removed.
func (e *ending) HasSyncedChecker() toolscache.DoneChecker {
	return either(e.SharedIndexInformer.HasSyncedChecker(), e.removed)
}

// AddEventHandler adds a handler.
func (e *ending) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return e.register(e.SharedIndexInformer.AddEventHandler(h))
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (e *ending) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return e.register(e.SharedIndexInformer.AddEventHandlerWithResyncPeriod(h, period))
}

// AddEventHandlerWithOptions adds a handler.
func (e *ending) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return e.register(e.SharedIndexInformer.AddEventHandlerWithOptions(h, options))
}

func (e *ending) register(r toolscache.ResourceEventHandlerRegistration, err error) (toolscache.ResourceEventHandlerRegistration, error) {
	if err != nil {
		return nil, err
	}
	return &endingRegistration{ResourceEventHandlerRegistration: r, removed: e.removed}, nil
}

// RemoveEventHandler removes a handler.
func (e *ending) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	if ours, ok := r.(*endingRegistration); ok {
		r = ours.ResourceEventHandlerRegistration
	}
	return e.SharedIndexInformer.RemoveEventHandler(r)
}

// endingRegistration does for a handler what ending does for its informer.
type endingRegistration struct {
	toolscache.ResourceEventHandlerRegistration
	removed <-chan struct{}
}

// HasSyncedChecker is done when the handler is synced or its informer removed.
func (e *endingRegistration) HasSyncedChecker() toolscache.DoneChecker {
	return either(e.ResourceEventHandlerRegistration.HasSyncedChecker(), e.removed)
}

// firstOf is done when the first of two is.
type firstOf struct {
	toolscache.DoneChecker
	done chan struct{}
}

// Done is closed when the first of two is.
func (f *firstOf) Done() <-chan struct{} { return f.done }

func either(checker toolscache.DoneChecker, removed <-chan struct{}) toolscache.DoneChecker {
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
