// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
)

// Watch calls each with the current snapshot, and again after each change, until
// each returns false or an error, or ctx ends. It restarts a watch that ends, after
// a list if the watch has expired. It calls problem, from other goroutines, with
// retryable errors. Permanent errors, such as missing permissions, are returned as
// *AccessError.
func (c *Cluster) Watch(ctx context.Context, problem func(error), each func(rollout.Snapshot) (more bool, err error)) error {
	first, err := c.Snapshot(ctx) // returns the errors that an informer retries
	if err != nil {
		return err
	}
	if more, err := each(first); !more || err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(klog.NewContext(ctx, logr.Discard())) // discards the log of the informers: it would disturb the output
	w := &watcher{cluster: c, changed: make(chan struct{}, 1), fail: cancel, problem: problem}
	defer w.running.Wait()
	defer cancel(nil)
	if err := w.start(ctx); err != nil {
		return err
	}
	return w.run(ctx, each)
}

// leaseCheck is the time between two snapshots without a change: a lease expires without an event.
const leaseCheck = 10 * time.Second

// watcher keeps the objects of a snapshot current.
type watcher struct {
	cluster *Cluster
	// changed holds a token while a change has not been sent yet.
	changed chan struct{}
	// fail ends the watch with an error.
	fail    context.CancelCauseFunc
	problem func(error)
	running sync.WaitGroup

	clusterAPIs, events, revisions, crds, deployments, pods, leases, configMaps cache.SharedIndexInformer
}

// informers returns all informers.
func (w *watcher) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{w.clusterAPIs, w.events, w.revisions, w.crds, w.deployments, w.pods, w.leases, w.configMaps}
}

// start starts an informer for each kind of object.
func (w *watcher) start(ctx context.Context) error {
	c := w.cluster
	object, partial := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	w.clusterAPIs = cache.NewSharedIndexInformer(selecting(c.objects.Resource(clusterAPIs), onlyCluster), object, 0, nil)
	w.events = cache.NewSharedIndexInformer(selecting(c.objects.Resource(events).Namespace(metav1.NamespaceDefault), aboutCluster), object, 0, nil)
	w.revisions = cache.NewSharedIndexInformer(selecting(c.metadata.Resource(configMaps).Namespace(c.Namespace), onlyRevision), partial, 0, nil)
	w.crds = cache.NewSharedIndexInformer(selecting(c.metadata.Resource(crds), metav1.ListOptions{}), partial, 0, nil)
	w.deployments = cache.NewSharedIndexInformer(selecting(c.objects.Resource(deployments).Namespace(c.Namespace), onlyInstaller), object, 0, nil)
	w.pods = cache.NewSharedIndexInformer(selecting(c.objects.Resource(pods).Namespace(c.Namespace), metav1.ListOptions{}), object, 0, nil)
	w.leases = cache.NewSharedIndexInformer(selecting(c.objects.Resource(leases).Namespace(c.Namespace), onlyInstaller), object, 0, nil)
	w.configMaps = cache.NewSharedIndexInformer(selecting(c.objects.Resource(configMaps).Namespace(c.Namespace), noRevision), object, 0, nil)
	return errors.Join(
		w.inform(ctx, w.clusterAPIs, clusterAPIs, ""), w.inform(ctx, w.events, events, metav1.NamespaceDefault),
		w.inform(ctx, w.revisions, configMaps, c.Namespace), w.inform(ctx, w.crds, crds, ""),
		w.inform(ctx, w.deployments, deployments, c.Namespace), w.inform(ctx, w.pods, pods, c.Namespace),
		w.inform(ctx, w.leases, leases, c.Namespace), w.inform(ctx, w.configMaps, configMaps, c.Namespace))
}

// lister is the client of a resource, with objects of type L in its lists.
type lister[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// selecting lists and watches the selected objects of a resource.
func selecting[L runtime.Object](client lister[L], selection metav1.ListOptions) cache.ListerWatcher {
	with := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector, options.FieldSelector = selection.LabelSelector, selection.FieldSelector
		return options
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, with(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, with(options))
		},
	}
}

// ended reports whether a watch only needs to be restarted.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// inform runs an informer until ctx ends.
func (w *watcher) inform(ctx context.Context, informer cache.SharedIndexInformer, resource schema.GroupVersionResource, namespace string) error {
	handleErr := func(_ context.Context, _ *cache.Reflector, err error) {
		failed := w.cluster.failed(resource, namespace, err)
		switch {
		case ended(err):
		case failed.Permanent:
			w.fail(failed)
		default:
			w.problem(failed)
		}
	}
	signal := func(any) {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	_, errHandler := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: signal, UpdateFunc: func(_, object any) { signal(object) }, DeleteFunc: signal,
	})
	if err := errors.Join(errHandler, informer.SetWatchErrorHandlerWithContext(handleErr), informer.SetTransform(withoutManagedFields)); err != nil {
		return err
	}
	w.running.Go(func() { informer.RunWithContext(ctx) })
	return nil
}

// withoutManagedFields removes the managed fields of an object: they take most of
// the memory.
func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// run sends a snapshot after each change.
func (w *watcher) run(ctx context.Context, each func(rollout.Snapshot) (bool, error)) error {
	for _, informer := range w.informers() {
		cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	}
	expiry := time.NewTicker(leaseCheck)
	defer expiry.Stop()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		snapshot, err := w.snapshot()
		if err != nil {
			return err
		}
		snapshot = w.cluster.withInputs(ctx, snapshot)
		if more, err := each(snapshot); !more || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-w.changed:
		case <-expiry.C:
		}
	}
}

// snapshot decodes the objects of the informers.
func (w *watcher) snapshot() (rollout.Snapshot, error) {
	return contents{
		namespace: w.cluster.Namespace, cluster: w.cluster.named(),
		clusterAPIs: stored[*unstructured.Unstructured](w.clusterAPIs), events: stored[*unstructured.Unstructured](w.events),
		deployments: stored[*unstructured.Unstructured](w.deployments), pods: stored[*unstructured.Unstructured](w.pods),
		leases: stored[*unstructured.Unstructured](w.leases), configMaps: stored[*unstructured.Unstructured](w.configMaps),
		crds: stored[*metav1.PartialObjectMetadata](w.crds), revisions: stored[*metav1.PartialObjectMetadata](w.revisions),
	}.decode(time.Now())
}

// stored returns the objects of an informer.
func stored[T any](informer cache.SharedIndexInformer) []T {
	var objects []T
	for _, item := range informer.GetStore().List() {
		if object, is := item.(T); is {
			objects = append(objects, object)
		}
	}
	return objects
}
