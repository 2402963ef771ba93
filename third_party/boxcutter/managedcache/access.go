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

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

var (
	errNoOwner = errors.New("owner is not set")
	errFreed   = errors.New("the access of the owner was freed")
)

// ObjectBoundAccessManager provides a separate cache and client for each owner
// object, for as long as the owner has users. The ConfigMapperFunc determines
// their credentials and the filters of the cache.
//
// The caches run while the manager runs. Before that, an access can be created,
// but reads from its cache return [cache.ErrCacheNotStarted].
type ObjectBoundAccessManager[T RefType] interface {
	manager.Runnable

	// Get returns the access of an owner, with the owner itself as a user. The
	// access is created on first use.
	Get(ctx context.Context, owner T) (Accessor, error)

	// GetWithUser returns the access of an owner and sets the kinds that the user
	// watches to the kinds of usedFor. Their informers start at the first read.
	GetWithUser(
		ctx context.Context, owner T,
		user client.Object, usedFor []client.Object,
	) (Accessor, error)

	// Free removes the owner from the users of its access, and ends the access if
	// there are no other users.
	Free(ctx context.Context, owner T) error

	// FreeWithUser ends the watches of a user. When the last user is freed, the
	// access of the owner ends too. Freeing an unknown owner or user is not an
	// error.
	FreeWithUser(ctx context.Context, owner T, user client.Object) error

	// Source returns a source of the events of all current and future caches.
	Source(handler handler.EventHandler, predicates ...predicate.Predicate) source.Source

	// GetWatchersForGVK returns the owners whose access is used for a kind, and the
	// users of these accesses, sorted.
	GetWatchersForGVK(gvk schema.GroupVersionKind) (out []AccessManagerKey)

	// CollectMetrics counts the cached objects.
	CollectMetrics(ctx context.Context) (ObjectsPerOwnerPerGVK, error)
}

// ObjectsPerOwnerPerGVK is the number of cached objects by owner and kind.
type ObjectsPerOwnerPerGVK map[AccessManagerKey]map[schema.GroupVersionKind]int

// Accessor reads from the cache of an owner and writes with its credentials.
type Accessor interface {
	client.Writer
	TrackingCache

	// UnfilteredReader reads from the API server with the owner's credentials, so
	// it also returns objects that the filters of the cache exclude.
	UnfilteredReader() client.Reader
}

// RefType is a pointer to an API type.
type RefType interface {
	client.Object
	comparable
}

// ConfigMapperFunc configures the access to the API server for an owner. It
// receives copies of the manager's REST config and cache options, and returns
// modified ones. The options have no HTTPClient, because a client has the
// credentials of its config; unless the function sets one, it is created from the
// returned config.
type ConfigMapperFunc[T RefType] func(
	context.Context, T, *rest.Config, cache.Options) (*rest.Config, cache.Options, error)

// AccessManagerKey identifies an owner or a user: an object of one kind, by
// namespace, name and UID.
type AccessManagerKey struct {
	schema.GroupVersionKind
	client.ObjectKey

	// UID distinguishes an object from an earlier one with the same name.
	UID types.UID
}

// keyOf returns the key of an object, with the kind in its TypeMeta. For a typed
// object without TypeMeta, the kind is empty.
func keyOf(obj client.Object) AccessManagerKey {
	return AccessManagerKey{
		GroupVersionKind: obj.GetObjectKind().GroupVersionKind(),
		ObjectKey:        client.ObjectKeyFromObject(obj), UID: obj.GetUID(),
	}
}

// describe returns the kind and name for errors and logs.
func (k AccessManagerKey) describe() string { return k.Kind + " " + k.ObjectKey.String() }

// compareKeys orders by kind, namespace, name and UID.
func compareKeys(a, b AccessManagerKey) int {
	return cmp.Or(compareKinds(a.GroupVersionKind, b.GroupVersionKind),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// NewObjectBoundAccessManager returns a manager. If mapConfig is nil, every owner
// has the base config and options.
func NewObjectBoundAccessManager[T RefType](
	log logr.Logger,
	mapConfig ConfigMapperFunc[T],
	baseRestConfig *rest.Config,
	baseCacheOptions cache.Options,
) ObjectBoundAccessManager[T] {
	if mapConfig == nil {
		mapConfig = func(_ context.Context, _ T, config *rest.Config, options cache.Options) (*rest.Config, cache.Options, error) {
			return config, options, nil
		}
	}
	if baseCacheOptions.Scheme == nil {
		baseCacheOptions.Scheme = scheme.Scheme
	}
	baseCacheOptions.HTTPClient = nil
	return &accessManager[T]{
		log: log, mapConfig: mapConfig, config: baseRestConfig, options: baseCacheOptions,
		accesses: map[AccessManagerKey]*access{}, subscriptions: map[*subscription]struct{}{},
	}
}

type accessManager[T RefType] struct {
	log       logr.Logger
	mapConfig ConfigMapperFunc[T]
	config    *rest.Config
	options   cache.Options
	running   sync.WaitGroup

	mu sync.Mutex
	// ctx is the context of Start, nil before.
	ctx context.Context
	// cancel ends ctx with the error of a cache that failed.
	cancel context.CancelCauseFunc
	// stopped reports whether caches may no longer be started.
	stopped       bool
	accesses      map[AccessManagerKey]*access
	subscriptions map[*subscription]struct{}
}

// access is the cache and the client of an owner. All fields except ready are guarded by
// the lock of the manager.
type access struct {
	// ready is closed when accessor or err is set.
	ready    chan struct{}
	accessor *accessor
	err      error
	users    sets.Set[AccessManagerKey]
	stop     context.CancelFunc
}

// Start runs the caches until ctx ends or one of them fails, and returns when all
// have stopped, with the error of the cache that failed. It can be called once.
func (m *accessManager[T]) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.mu.Lock()
	if m.ctx != nil {
		m.mu.Unlock()
		return errors.New("the access manager was already started")
	}
	m.ctx, m.cancel = ctx, cancel
	for key, a := range m.accesses {
		m.run(key, a) //nolint:contextcheck // it has the context from m.ctx
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	m.running.Wait()
	if err, failed := errors.AsType[*cacheError](context.Cause(ctx)); failed {
		return err
	}
	return nil
}

// cacheError is the error of a cache. It stops the access manager.
type cacheError struct {
	owner string
	err   error
}

// Error names the owner.
func (e *cacheError) Error() string {
	return fmt.Sprintf("running the cache of %s: %v", e.owner, e.err)
}

// Unwrap returns the error of the cache.
func (e *cacheError) Unwrap() error { return e.err }

// NeedLeaderElection returns false, so that a controller-runtime manager starts
// it before leader election.
func (m *accessManager[T]) NeedLeaderElection() bool { return false }

// run starts the cache of an access if the manager is running and the access is
// ready. The caller must hold the lock.
func (m *accessManager[T]) run(key AccessManagerKey, a *access) {
	if a.accessor == nil || m.ctx == nil || m.stopped {
		return
	}
	var ctx context.Context
	ctx, a.stop = context.WithCancel(m.ctx)
	accessor := a.accessor
	m.running.Go(func() {
		if err := accessor.Start(ctx); err != nil {
			m.cancel(&cacheError{owner: key.describe(), err: err})
		}
		accessor.closeIdle()
	})
}

// Get returns the access of an owner.
func (m *accessManager[T]) Get(ctx context.Context, owner T) (Accessor, error) {
	key, err := m.ownerKey(owner)
	if err != nil {
		return nil, err
	}
	accessor, err := m.accessor(ctx, key, owner, key)
	if err != nil {
		return nil, err
	}
	return accessor, nil
}

// GetWithUser returns the access of an owner and sets the kinds that the user
// watches.
func (m *accessManager[T]) GetWithUser(ctx context.Context, owner T, user client.Object, usedFor []client.Object) (Accessor, error) {
	key, err := m.ownerKey(owner)
	if err != nil {
		return nil, err
	}
	userKey := keyOf(user)
	gvks, err := kindsOf(usedFor, m.options.Scheme)
	if err != nil {
		return nil, err
	}
	accessor, err := m.accessor(ctx, key, owner, userKey)
	if err != nil {
		return nil, err
	}
	if err := accessor.setUserAndRemoveUnused(ctx, userKey, gvks); err != nil {
		return nil, fmt.Errorf("watching kinds for %s: %w", key.describe(), err)
	}
	return accessor, nil
}

func kindsOf(objs []client.Object, scheme *runtime.Scheme) (sets.Set[schema.GroupVersionKind], error) {
	gvks := sets.New[schema.GroupVersionKind]()
	var errs []error
	for _, obj := range objs {
		gvk, err := apiutil.GVKForObject(obj, scheme)
		if err != nil {
			errs = append(errs, fmt.Errorf("finding the kind of %T %s: %w", obj, client.ObjectKeyFromObject(obj), err))
		}
		gvks.Insert(gvk)
	}
	return gvks, errors.Join(errs...)
}

func (m *accessManager[T]) ownerKey(owner T) (AccessManagerKey, error) {
	var none T
	if owner == none {
		return AccessManagerKey{}, errNoOwner
	}
	return keyOf(owner), nil
}

// accessor returns the access of an owner and creates it if necessary. One of
// several concurrent callers creates it; if that fails, the next one tries again.
func (m *accessManager[T]) accessor(ctx context.Context, key AccessManagerKey, owner T, user AccessManagerKey) (*accessor, error) {
	for {
		a, mine := m.lookupOrReserve(key, user)
		if mine {
			return m.open(ctx, key, owner, a)
		}
		select {
		case <-a.ready:
			if a.err == nil {
				return a.accessor, nil
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the access of %s: %w", key.describe(), context.Cause(ctx))
		}
	}
}

// lookupOrReserve returns the access of an owner and adds a user to it. If mine
// is true, the access is new and the caller must open it.
func (m *accessManager[T]) lookupOrReserve(key, user AccessManagerKey) (a *access, mine bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.accesses[key]
	if !ok {
		a = &access{ready: make(chan struct{}), users: sets.New[AccessManagerKey]()}
		m.accesses[key] = a
	}
	a.users.Insert(user)
	return a, !ok
}

// open creates the accessor of a new access and starts its cache.
func (m *accessManager[T]) open(ctx context.Context, key AccessManagerKey, owner T, a *access) (*accessor, error) {
	accessor, err := m.build(ctx, owner)
	m.mu.Lock()
	defer m.mu.Unlock()
	defer close(a.ready)
	if err == nil {
		if err = m.adopt(key, a, accessor); err != nil { //nolint:contextcheck // the access outlives the caller
			accessor.end()
		}
	}
	if err != nil {
		a.err = fmt.Errorf("opening the access of %s: %w", key.describe(), err)
		if m.accesses[key] == a {
			delete(m.accesses, key)
		}
		return nil, a.err
	}
	return accessor, nil
}

// adopt sets the accessor of an access and starts its cache, unless the access
// was freed in the meantime.
func (m *accessManager[T]) adopt(key AccessManagerKey, a *access, accessor *accessor) error {
	if m.accesses[key] != a {
		return errFreed
	}
	if m.stopped {
		return errStopped
	}
	for f := range m.subscriptions {
		if err := f.follow(accessor); err != nil {
			return err
		}
	}
	a.accessor = accessor
	m.run(key, a)
	return nil
}

// base returns copies of the base configuration.
func (m *accessManager[T]) base() (*rest.Config, cache.Options) {
	options := m.options
	options.ByObject = maps.Clone(options.ByObject)
	options.DefaultNamespaces = maps.Clone(options.DefaultNamespaces)
	if m.config == nil {
		return nil, options
	}
	return rest.CopyConfig(m.config), options
}

func (m *accessManager[T]) build(ctx context.Context, owner T) (*accessor, error) {
	config, options := m.base()
	config, options, err := m.mapConfig(ctx, owner, config, options)
	if err != nil {
		return nil, fmt.Errorf("mapping the configuration: %w", err)
	}
	if config == nil {
		return nil, errors.New("mapping the configuration: REST config is not set")
	}
	if options, err = withDefaults(config, options); err != nil {
		return nil, err
	}
	tracking, err := newTrackingCache(m.log, config, options)
	if err != nil {
		return nil, err
	}
	live, err := client.New(config, client.Options{HTTPClient: options.HTTPClient, Scheme: options.Scheme, Mapper: options.Mapper})
	if err != nil {
		return nil, fmt.Errorf("creating the client: %w", err)
	}
	closeIdle := func() { utilnet.CloseIdleConnectionsFor(options.HTTPClient.Transport) }
	return &accessor{Writer: live, trackingCache: tracking, live: live, closeIdle: closeIdle}, nil
}

// Free removes the owner from the users of its access.
func (m *accessManager[T]) Free(ctx context.Context, owner T) error {
	return m.FreeWithUser(ctx, owner, owner)
}

// free ends an access. The caller must hold the lock.
func (m *accessManager[T]) free(key AccessManagerKey) {
	a, ok := m.accesses[key]
	if !ok {
		return
	}
	delete(m.accesses, key)
	if a.stop != nil {
		a.stop()
	}
	if a.accessor != nil {
		a.accessor.end()
	}
}

// FreeWithUser ends a user's watches.
func (m *accessManager[T]) FreeWithUser(ctx context.Context, owner T, user client.Object) error {
	key, err := m.ownerKey(owner)
	if err != nil {
		return err
	}
	if accessor := m.forget(key, keyOf(user)); accessor != nil {
		return accessor.Free(ctx, user)
	}
	return nil
}

// forget removes a user from an access. It frees the access after the last user,
// and otherwise returns its accessor.
func (m *accessManager[T]) forget(key, user AccessManagerKey) *accessor {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.accesses[key]
	if !ok {
		return nil
	}
	a.users.Delete(user)
	if a.users.Len() == 0 {
		m.free(key)
		return nil
	}
	return a.accessor
}

// Source returns a source of the events of all current and future caches.
func (m *accessManager[T]) Source(h handler.EventHandler, predicates ...predicate.Predicate) source.Source {
	return startFunc(func(ctx context.Context, q queue) error {
		if h == nil {
			return errNoHandler
		}
		f := &subscription{ctx: ctx, handler: h, predicates: predicates, queue: q}
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, a := range m.accesses {
			if a.accessor == nil {
				continue
			}
			if err := f.follow(a.accessor); err != nil {
				return err
			}
		}
		m.subscriptions[f] = struct{}{}
		context.AfterFunc(ctx, func() { m.disconnect(f) })
		return nil
	})
}

func (m *accessManager[T]) disconnect(f *subscription) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.subscriptions, f)
}

// follow starts the source for another cache.
func (f *subscription) follow(c TrackingCache) error {
	return c.Source(f.handler, f.predicates...).Start(f.ctx, f.queue)
}

// GetWatchersForGVK returns the owners and users of the accesses used for a kind.
func (m *accessManager[T]) GetWatchersForGVK(gvk schema.GroupVersionKind) (out []AccessManagerKey) {
	for key, accessor := range m.snapshot() {
		if accessor.watches(gvk) || slices.Contains(accessor.GetGVKs(), gvk) {
			out = append(out, m.usersOf(key)...)
		}
	}
	slices.SortFunc(out, compareKeys)
	return slices.Compact(out)
}

// usersOf returns the owner of an access and its users.
func (m *accessManager[T]) usersOf(owner AccessManagerKey) []AccessManagerKey {
	m.mu.Lock()
	defer m.mu.Unlock()
	users := []AccessManagerKey{owner}
	if a, ok := m.accesses[owner]; ok {
		users = slices.AppendSeq(users, maps.Keys(a.users))
	}
	return users
}

// CollectMetrics counts the cached objects.
func (m *accessManager[T]) CollectMetrics(ctx context.Context) (ObjectsPerOwnerPerGVK, error) {
	out := ObjectsPerOwnerPerGVK{}
	var errs []error
	for key, accessor := range m.snapshot() {
		counts, err := accessor.GetObjectsPerInformer(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("counting the objects of %s: %w", key.describe(), err))
			continue
		}
		out[key] = counts
	}
	return out, errors.Join(errs...)
}

func (m *accessManager[T]) snapshot() map[AccessManagerKey]*accessor {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[AccessManagerKey]*accessor{}
	for key, a := range m.accesses {
		if a.accessor != nil {
			out[key] = a.accessor
		}
	}
	return out
}

// accessor is the access of one owner.
type accessor struct {
	client.Writer
	*trackingCache

	live      client.Reader
	closeIdle func()
}

// UnfilteredReader returns a reader without cache.
func (a *accessor) UnfilteredReader() client.Reader { return a.live }
