// SPDX-License-Identifier: Apache-2.0

package managedcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"pkg.package-operator.run/boxcutter/internal/compat"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// TrackingCache is a cache that tracks the users of each kind.
//
// Get, List and GetInformer start the informer of a kind if necessary and wait
// until it is synced. If the first list fails, they return the error of the API
// server, the connection or discovery ([meta.IsNoMatchError] if the kind is not
// served), and the next call tries again. Before Start they behave as in
// controller-runtime: reads return [cache.ErrCacheNotStarted], and informers are
// returned unsynced.
//
// If the API server rejects the list or watch of a kind (missing permission,
// deleted CRD), the informer of the kind is stopped; other kinds are not
// affected. The next read or Watch of the kind starts it again. Retryable errors
// (an overloaded or unreachable server) do not stop an informer.
//
// As in controller-runtime, each Go type of a kind (typed, unstructured,
// metadata) has its own informer. Watch starts informers for unstructured
// objects.
//
// All methods are safe for concurrent use, before and after Start.
type TrackingCache interface {
	cache.Cache

	// Source returns a source of the events of all current and future informers.
	// When the API server rejects the watch of a kind, the source also sends a
	// generic event, with an object that has only this kind, so that dependent
	// controllers reconcile; at most one per minute and kind.
	Source(handler handler.EventHandler, predicates ...predicate.Predicate) source.Source

	// RemoveOtherInformers stops the informers of all other kinds. The watches of
	// users are kept: the next read or Watch of such a kind starts its informer
	// again.
	RemoveOtherInformers(ctx context.Context, gvks sets.Set[schema.GroupVersionKind]) error

	// GetGVKs returns the kinds with an informer, sorted by group, version and kind.
	GetGVKs() []schema.GroupVersionKind

	// Watch sets the kinds that a user watches. It starts missing informers without
	// waiting for them, and stops the informers of kinds without users and waiting
	// readers, even if a read or GetInformer started them. A kind that is not served
	// yet is not an error: the next Watch or read starts its informer. Users are
	// identified by kind, name and UID.
	Watch(ctx context.Context, user client.Object, gvks sets.Set[schema.GroupVersionKind]) error

	// Free ends all watches of a user, and stops informers as Watch does. Freeing
	// an unknown user is not an error.
	Free(ctx context.Context, user client.Object) error

	// GetObjectsPerInformer counts the cached objects of each kind.
	GetObjectsPerInformer(ctx context.Context) (map[schema.GroupVersionKind]int, error)
}

var _ TrackingCache = (*trackingCache)(nil)

// trackingCache reads from a controller-runtime cache. That cache does not start
// informers (ReaderFailOnMissingInformer), so that trackingCache knows every
// informer. It is read only when the informer is synced, so reads never block and
// may hold the lock.
type trackingCache struct {
	log        logr.Logger
	scheme     *runtime.Scheme
	mapper     meta.RESTMapper
	inner      cache.Cache
	readsStart bool
	onError    toolscache.WatchErrorHandlerWithContext
	started    chan struct{}

	mu            sync.RWMutex
	ended         bool
	users         map[AccessManagerKey]sets.Set[schema.GroupVersionKind]
	informers     map[informerKey]*informer
	indexes       map[informerKey]map[string]client.IndexerFunc
	subscriptions map[*subscription]struct{}
	notifiedAt    map[informerKey]time.Time
	// building is the informer that inner is creating. It is guarded by mu.
	building *informer
}

// NewTrackingCache returns a cache with the options of a controller-runtime
// cache. With ReaderFailOnMissingInformer, reads start only the informers of
// watched kinds. The cache does nothing before Start.
func NewTrackingCache(log logr.Logger, config *rest.Config, opts cache.Options) (TrackingCache, error) {
	return newTrackingCache(log, config, opts)
}

func newTrackingCache(log logr.Logger, config *rest.Config, opts cache.Options) (*trackingCache, error) {
	if config == nil {
		return nil, errors.New("creating the tracking cache: REST config is not set")
	}
	opts, err := withDefaults(config, opts)
	if err != nil {
		return nil, fmt.Errorf("creating the tracking cache: %w", err)
	}
	c := &trackingCache{
		log: log, scheme: opts.Scheme, mapper: opts.Mapper,
		readsStart:    !opts.ReaderFailOnMissingInformer,
		onError:       opts.DefaultWatchErrorHandler,
		started:       make(chan struct{}),
		users:         map[AccessManagerKey]sets.Set[schema.GroupVersionKind]{},
		informers:     map[informerKey]*informer{},
		indexes:       map[informerKey]map[string]client.IndexerFunc{},
		subscriptions: map[*subscription]struct{}{},
		notifiedAt:    map[informerKey]time.Time{},
	}
	opts.ReaderFailOnMissingInformer = true
	opts.DefaultWatchErrorHandler = nil
	opts.NewInformer = c.reportErrors(opts.NewInformer)
	if c.inner, err = cache.New(config, opts); err != nil {
		return nil, fmt.Errorf("creating the tracking cache: %w", err)
	}
	return c, nil
}

// withDefaults sets the defaults that are also used outside of the inner cache.
func withDefaults(config *rest.Config, opts cache.Options) (cache.Options, error) {
	if opts.Scheme == nil {
		opts.Scheme = scheme.Scheme
	}
	if opts.DefaultWatchErrorHandler == nil {
		opts.DefaultWatchErrorHandler = toolscache.DefaultWatchErrorHandler
	}
	var err error
	if opts.HTTPClient == nil {
		if opts.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return opts, fmt.Errorf("creating the HTTP client: %w", err)
		}
	}
	if opts.Mapper == nil {
		if opts.Mapper, err = apiutil.NewDynamicRESTMapper(config, opts.HTTPClient); err != nil {
			return opts, fmt.Errorf("creating the REST mapper: %w", err)
		}
	}
	return opts, nil
}

// newSharedInformer is the informer constructor of a controller-runtime cache.
type newSharedInformer = func(toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers) toolscache.SharedIndexInformer

// reportErrors wraps the informer constructor of inner, so that the errors of
// each informer are reported with its kind.
func (c *trackingCache) reportErrors(newShared newSharedInformer) newSharedInformer {
	if newShared == nil {
		newShared = toolscache.NewSharedIndexInformer
	}
	return func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		i := c.building
		shared := newShared(&watchErrorReporter{ListerWatcher: lw, report: i.fail}, obj, resync, indexers)
		err := shared.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *toolscache.Reflector, err error) {
			c.failed(ctx, r, i, err)
		})
		if err != nil { // It is already running: only a custom NewInformer can cause this.
			c.log.Error(err, "Failed to set the watch error handler of an informer; its errors are not reported", "kind", i.key.String())
		}
		i.shared = append(i.shared, shared)
		return &removableInformer{SharedIndexInformer: shared, removed: i.removed}
	}
}

// failed handles the error of an informer's list or watch.
func (c *trackingCache) failed(ctx context.Context, r *toolscache.Reflector, i *informer, err error) {
	if ctx.Err() != nil {
		return
	}
	if !rejected(err) {
		i.fail(err)
		c.onError(ctx, r, err)
		return
	}
	if c.removeRejected(ctx, i, err) {
		c.log.Info("Stopped watching a kind because the API server rejects it", "kind", i.key.String(), "reason", err.Error())
	}
}

// removeRejected removes an informer whose list or watch is rejected, unless it
// was already removed.
func (c *trackingCache) removeRejected(ctx context.Context, i *informer, reason error) bool {
	c.mu.Lock()
	if c.informers[i.key] != i {
		c.mu.Unlock()
		return false
	}
	worked := i.synced()
	if err := c.remove(ctx, i, reason); err != nil {
		c.log.Error(err, "Failed to stop an informer", "kind", i.key.String())
	}
	var subscriptions []*subscription
	if worked && c.mayNotify(i.key) {
		subscriptions = slices.Collect(maps.Keys(c.subscriptions))
	}
	c.mu.Unlock()
	c.publishGeneric(subscriptions, i.key)
	return true
}

// Start runs the cache until ctx ends, and returns when all its informers have
// stopped. It can be called once.
func (c *trackingCache) Start(ctx context.Context) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, c.end)()
	defer c.end()
	return c.inner.Start(ctx)
}

func (c *trackingCache) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isStarted() {
		return errors.New("the tracking cache was already started")
	}
	close(c.started)
	return nil
}

// end releases all waiters and sources.
func (c *trackingCache) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, i := range c.informers {
		i.end(errStopped)
	}
	for f := range c.subscriptions {
		f.release()
	}
	clear(c.subscriptions)
}

func (c *trackingCache) isStarted() bool {
	select {
	case <-c.started:
		return true
	default:
		return false
	}
}

// NeedLeaderElection returns false, so that a controller-runtime manager starts
// the cache before leader election.
func (c *trackingCache) NeedLeaderElection() bool { return false }

// WaitForCacheSync waits until the cache is started and its current informers are
// synced. It returns false if ctx ends first or an informer fails.
func (c *trackingCache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.started:
	case <-ctx.Done():
		return false
	}
	for _, i := range c.snapshot() {
		if err := i.wait(ctx); err != nil && !errors.Is(err, errRemoved) {
			return false
		}
	}
	return true
}

func (c *trackingCache) snapshot() []*informer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.informers))
}

// Get reads an object from the cache.
func (c *trackingCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.read(ctx, obj, func() error { return c.inner.Get(ctx, key, obj, opts...) })
}

// List reads objects from the cache.
func (c *trackingCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.read(ctx, list, func() error { return c.inner.List(ctx, list, opts...) })
}

// read calls from when the informer is synced.
func (c *trackingCache) read(ctx context.Context, obj runtime.Object, from func() error) error {
	key, err := keyFor(obj, c.scheme)
	if err != nil {
		return err
	}
	for {
		i, err := c.acquire(ctx, key, c.readsStart)
		if err != nil {
			return err
		}
		done, err := c.readFrom(ctx, i, from)
		i.readers.Add(-1)
		if done {
			return err
		}
	}
}

// readFrom waits for the informer and reads. done is false if the informer was
// removed in the meantime.
func (c *trackingCache) readFrom(ctx context.Context, i *informer, from func() error) (done bool, err error) {
	if !c.isStarted() {
		return true, &cache.ErrCacheNotStarted{}
	}
	if err := i.wait(ctx); err != nil {
		return true, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.informers[i.key] != i {
		return false, nil
	}
	return true, from()
}

// GetInformer returns the informer of the object's kind.
func (c *trackingCache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	key, err := keyFor(obj, c.scheme)
	if err != nil {
		return nil, err
	}
	return c.informer(ctx, key, opts)
}

// GetInformerForKind returns the informer of a kind, for its Go type if the
// scheme has one, else for unstructured objects.
func (c *trackingCache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	key := informerKey{gvk: gvk, form: formUnstructured}
	if c.scheme.Recognizes(gvk) {
		key.form = formTyped
	}
	return c.informer(ctx, key, opts)
}

func (c *trackingCache) informer(ctx context.Context, key informerKey, opts []cache.InformerGetOption) (cache.Informer, error) {
	i, err := c.acquire(ctx, key, true)
	if err != nil {
		return nil, err
	}
	defer i.readers.Add(-1)
	options := cache.InformerGetOptions{}
	for _, opt := range opts {
		opt(&options)
	}
	blocks := options.BlockUntilSynced == nil || *options.BlockUntilSynced
	if blocks && c.isStarted() {
		if err := i.wait(ctx); err != nil {
			return nil, err
		}
	}
	return i.handle, nil
}

// RemoveInformer stops the informer of the object's kind. Pending reads fail.
func (c *trackingCache) RemoveInformer(ctx context.Context, obj client.Object) error {
	key, err := keyFor(obj, c.scheme)
	if err != nil {
		return err
	}
	return c.removeIf(ctx, func(i *informer) bool { return i.key == key })
}

// RemoveOtherInformers stops the informers of all other kinds.
func (c *trackingCache) RemoveOtherInformers(ctx context.Context, gvks sets.Set[schema.GroupVersionKind]) error {
	return c.removeIf(ctx, func(i *informer) bool { return !gvks.Has(i.key.gvk) })
}

// IndexField adds an index to the informer of the object's kind, and to all
// later informers of this kind. It starts the informer if necessary.
func (c *trackingCache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	key, err := keyFor(obj, c.scheme)
	if err != nil {
		return err
	}
	i, err := c.acquire(ctx, key, true)
	if err != nil {
		return err
	}
	defer i.readers.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.informers[key] != i {
		return fmt.Errorf("adding an index to %s: %w", key, errRemoved)
	}
	if err := c.inner.IndexField(ctx, obj, field, extract); err != nil {
		return fmt.Errorf("adding an index to %s: %w", key, err)
	}
	if c.indexes[key] == nil {
		c.indexes[key] = map[string]client.IndexerFunc{}
	}
	c.indexes[key][field] = extract
	return nil
}

// Watch sets the kinds that a user watches.
func (c *trackingCache) Watch(ctx context.Context, user client.Object, gvks sets.Set[schema.GroupVersionKind]) error {
	c.setUser(keyOf(user), gvks)
	var errs []error
	for _, gvk := range slices.SortedFunc(maps.Keys(gvks), compareKinds) {
		i, err := c.acquire(ctx, informerKey{gvk: gvk, form: formUnstructured}, true)
		switch {
		case err == nil:
			i.readers.Add(-1)
		case meta.IsNoMatchError(err) && !compat.Original:
			c.log.V(1).Info("Kind is not served yet", "kind", gvk.String())
		default:
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, c.removeUnused(ctx))...)
}

// Free ends all watches of a user.
func (c *trackingCache) Free(ctx context.Context, user client.Object) error {
	return c.setUserAndRemoveUnused(ctx, keyOf(user), nil)
}

// setUserAndRemoveUnused sets the kinds of a user without starting informers.
func (c *trackingCache) setUserAndRemoveUnused(ctx context.Context, user AccessManagerKey, gvks sets.Set[schema.GroupVersionKind]) error {
	c.setUser(user, gvks)
	return c.removeUnused(ctx)
}

func (c *trackingCache) setUser(user AccessManagerKey, gvks sets.Set[schema.GroupVersionKind]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gvks.Len() == 0 {
		delete(c.users, user)
		return
	}
	c.users[user] = gvks.Clone()
}

// watched returns the kinds that users watch, served or not. The caller must hold
// the lock.
func (c *trackingCache) watched() sets.Set[schema.GroupVersionKind] {
	all := sets.New[schema.GroupVersionKind]()
	for _, gvks := range c.users {
		all = all.Union(gvks)
	}
	return all
}

// watches reports whether a user watches a kind.
func (c *trackingCache) watches(gvk schema.GroupVersionKind) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, gvks := range c.users {
		if gvks.Has(gvk) {
			return true
		}
	}
	return false
}

func (c *trackingCache) removeUnused(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	watched := c.watched()
	return c.removeAll(ctx, func(i *informer) bool { return i.readers.Load() == 0 && !watched.Has(i.key.gvk) })
}

func (c *trackingCache) removeIf(ctx context.Context, which func(*informer) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removeAll(ctx, which)
}

// removeAll removes the matching informers. The caller must hold the lock.
func (c *trackingCache) removeAll(ctx context.Context, which func(*informer) bool) error {
	var errs []error
	for _, i := range c.informers {
		if which(i) {
			errs = append(errs, c.remove(ctx, i, errRemoved))
		}
	}
	return errors.Join(errs...)
}

// remove stops an informer; its waiters fail with the reason. The caller must
// hold the lock.
func (c *trackingCache) remove(ctx context.Context, i *informer, reason error) error {
	delete(c.informers, i.key)
	for f := range c.subscriptions {
		delete(f.registrations, i)
	}
	i.end(reason)
	obj, err := i.key.object(c.scheme)
	if err == nil {
		err = c.inner.RemoveInformer(ctx, obj)
	}
	if err != nil {
		return fmt.Errorf("stopping the informer of %s: %w", i.key, err)
	}
	return nil
}

// acquire returns the informer of a key and counts the caller as a reader. If
// there is none, or if it has failed and is not synced, it starts a new one, so
// that an error is never older than the call.
func (c *trackingCache) acquire(ctx context.Context, key informerKey, mayStart bool) (*informer, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, context.Cause(ctx))
	}
	if i, err := c.running(key); i != nil || err != nil {
		return i, err
	}
	if !mayStart && !c.watches(key.gvk) {
		return nil, &cache.ErrResourceNotCached{GVK: key.gvk}
	}
	// This may send requests to the API server, so it must not hold the lock.
	if _, err := c.mapper.RESTMapping(key.gvk.GroupKind(), key.gvk.Version); err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i, err := c.ensure(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("starting the informer of %s: %w", key, err)
	}
	i.readers.Add(1)
	return i, nil
}

// running returns the informer of a key if it is not failing.
func (c *trackingCache) running(key informerKey) (*informer, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.ended {
		if compat.Original { // A call to the original waits for ever if the cache ends meanwhile.
			select {}
		}
		return nil, fmt.Errorf("reading %s: %w", key, errStopped)
	}
	i, ok := c.informers[key]
	if !ok || i.failing() {
		return nil, nil
	}
	i.readers.Add(1)
	return i, nil
}

// ensure starts the informer of a key unless there is one that is not failing.
// The caller must hold the lock.
func (c *trackingCache) ensure(ctx context.Context, key informerKey) (*informer, error) {
	if c.ended {
		return nil, errStopped
	}
	if i, ok := c.informers[key]; ok {
		if !i.failing() {
			return i, nil
		}
		if err := c.remove(ctx, i, errRemoved); err != nil {
			return nil, err
		}
	}
	i, err := c.build(ctx, key)
	if err != nil {
		return nil, err
	}
	c.informers[key] = i
	if err := c.initialize(ctx, i); err != nil {
		return nil, errors.Join(err, c.remove(ctx, i, err))
	}
	return i, nil
}

// build creates an informer in inner. The caller must hold the lock.
func (c *trackingCache) build(ctx context.Context, key informerKey) (*informer, error) {
	obj, err := key.object(c.scheme)
	if err != nil {
		return nil, err
	}
	i := newInformer(key)
	c.building = i
	defer func() { c.building = nil }()
	i.handle, err = c.inner.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil { // some namespaces may already have informers
		i.end(err)
		return nil, errors.Join(err, c.inner.RemoveInformer(ctx, obj))
	}
	return i, nil
}

// initialize adds the requested indexes to a new informer and connects it to the
// sources. The caller must hold the lock.
func (c *trackingCache) initialize(ctx context.Context, i *informer) error {
	var errs []error
	for field, extract := range c.indexes[i.key] {
		obj, err := i.key.object(c.scheme)
		if err == nil {
			err = c.inner.IndexField(ctx, obj, field, extract)
		}
		errs = append(errs, err)
	}
	for f := range c.subscriptions {
		errs = append(errs, f.attach(i))
	}
	return errors.Join(errs...)
}

// GetGVKs returns the kinds with an informer.
func (c *trackingCache) GetGVKs() []schema.GroupVersionKind {
	c.mu.RLock()
	defer c.mu.RUnlock()
	gvks := sets.New[schema.GroupVersionKind]()
	for key := range c.informers {
		gvks.Insert(key.gvk)
	}
	return slices.SortedFunc(maps.Keys(gvks), compareKinds)
}

// GetObjectsPerInformer counts the cached objects of each kind. An object that is
// cached in several Go types counts once.
func (c *trackingCache) GetObjectsPerInformer(context.Context) (map[schema.GroupVersionKind]int, error) {
	out := map[schema.GroupVersionKind]int{}
	for _, i := range c.snapshot() {
		out[i.key.gvk] = max(out[i.key.gvk], i.objects())
	}
	return out, nil
}

// compareKinds orders by group, version and kind.
func compareKinds(a, b schema.GroupVersionKind) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
}
