// SPDX-License-Identifier: Apache-2.0

package managedcache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

var (
	errRemoved = errors.New("the informer was removed")
	errStopped = errors.New("the cache was stopped")
)

// form is the Go type of the objects of an informer. A kind may be cached in
// several forms, each with its own informer.
type form int

const (
	formUnstructured form = iota
	formMetadata
	formTyped
)

// informerKey identifies an informer by kind and form.
type informerKey struct {
	gvk  schema.GroupVersionKind
	form form
}

func (k informerKey) String() string {
	gv, kind := k.gvk.ToAPIVersionAndKind()
	return kind + " (" + gv + ")"
}

// keyFor returns the key of the informer for an object or a list.
func keyFor(obj runtime.Object, scheme *runtime.Scheme) (informerKey, error) {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return informerKey{}, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	if _, isList := obj.(client.ObjectList); isList {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	return informerKey{gvk: gvk, form: formOf(obj)}, nil
}

func formOf(obj runtime.Object) form {
	switch obj.(type) {
	case runtime.Unstructured:
		return formUnstructured
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return formMetadata
	default:
		return formTyped
	}
}

// object returns an empty object of the key's kind and form.
func (k informerKey) object(scheme *runtime.Scheme) (client.Object, error) {
	var obj client.Object
	switch k.form {
	case formUnstructured:
		obj = &unstructured.Unstructured{}
	case formMetadata:
		obj = &metav1.PartialObjectMetadata{}
	default:
		typed, err := scheme.New(k.gvk)
		if err != nil {
			return nil, err
		}
		var ok bool
		if obj, ok = typed.(client.Object); !ok {
			return nil, fmt.Errorf("%s is not an object: %T has no metadata", k, typed)
		}
	}
	obj.GetObjectKind().SetGroupVersionKind(k.gvk)
	return obj, nil
}

// informer is the informer for one key and its state.
type informer struct {
	key informerKey
	// handle is the informer that users of the cache get.
	handle cache.Informer
	// shared are the underlying informers: one per namespace if the cache is
	// limited to namespaces, else one.
	shared []toolscache.SharedIndexInformer
	// failedCh is closed when the first attempt fails or the informer is stopped;
	// err is the cause.
	failedCh chan struct{}
	err      error
	failOnce sync.Once
	// removed is closed when the informer is stopped.
	removed    chan struct{}
	removeOnce sync.Once
	// readers is the number of reads in progress.
	readers atomic.Int32
}

func newInformer(key informerKey) *informer {
	return &informer{key: key, failedCh: make(chan struct{}), removed: make(chan struct{})}
}

// fail releases all waiters with an error. Only the first error counts.
func (i *informer) fail(err error) {
	i.failOnce.Do(func() {
		i.err = err
		close(i.failedCh)
	})
}

// end marks the informer as stopped and releases all waiters.
func (i *informer) end(reason error) {
	i.fail(reason)
	i.removeOnce.Do(func() { close(i.removed) })
}

// failing reports whether the first attempt failed and no later one has succeeded.
func (i *informer) failing() bool {
	select {
	case <-i.failedCh:
		return !i.synced()
	default:
		return false
	}
}

// synced reports whether the first list is complete.
func (i *informer) synced() bool {
	for _, shared := range i.shared {
		if !shared.HasSynced() {
			return false
		}
	}
	return true
}

// wait waits until the informer is synced or has failed. It is safe for
// concurrent use.
func (i *informer) wait(ctx context.Context) error {
	for _, shared := range i.shared {
		select {
		case <-shared.HasSyncedChecker().Done():
		case <-i.failedCh:
			if i.synced() {
				return nil
			}
			return fmt.Errorf("watching %s: %w", i.key, i.err)
		case <-ctx.Done():
			return fmt.Errorf("waiting for the cache of %s to sync: %w", i.key, context.Cause(ctx))
		}
	}
	return nil
}

// objects returns the number of cached objects.
func (i *informer) objects() int {
	count := 0
	for _, shared := range i.shared {
		count += len(shared.GetStore().ListKeys())
	}
	return count
}

// rejected reports whether an error persists until the cluster changes: missing
// permission, or a kind that is not served. Errors of an overloaded or unreachable
// server and expired resource versions are retryable.
func rejected(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// watchErrorReporter is a ListerWatcher that reports the errors that a reflector does not
// pass to its error handler: the errors before the first complete list. The reflector
// retries that list forever.
type watchErrorReporter struct {
	toolscache.ListerWatcher
	report func(error)
}

// ListWithContext lists the objects.
func (a *watchErrorReporter) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return toolscache.ToListerWithContext(a.ListerWatcher).ListWithContext(ctx, opts)
}

// WatchWithContext opens a watch.
func (a *watchErrorReporter) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := toolscache.ToWatcherWithContext(a.ListerWatcher).WatchWithContext(ctx, opts)
	if utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err) {
		a.report(err)
	}
	if err != nil {
		return nil, err
	}
	return drainedWatch{w}, nil
}

// drainedWatch is a watch that is drained when it is stopped. The informers for
// metadata filter their watches, and the goroutine of the filter leaks if it is
// stopped with a pending event.
type drainedWatch struct {
	watch.Interface
}

// Stop ends the watch.
func (d drainedWatch) Stop() {
	d.Interface.Stop()
	go func() {
		for range d.ResultChan() { // discard the events
		}
	}()
}
