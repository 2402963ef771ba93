// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"pkg.package-operator.run/boxcutter/managedcache"
	"pkg.package-operator.run/boxcutter/util"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var configMapKind = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

func cacheCases() []Case {
	return []Case{
		{"caches/tracks-kinds", cacheKinds},
		{"caches/watchers-include-users", cacheWatchers},
		{"caches/starts-at-first-read", cacheLazy},
		{"caches/free-keeps-users", cacheFree},
		{"caches/key-of-typed-owner", cacheKey},
		{"metrics/object-counts-once", cacheMetrics},
	}
}

func (e *Env) cacheOptions() cache.Options {
	return cache.Options{Scheme: scheme.Scheme, Mapper: e.mapper, DefaultNamespaces: map[string]cache.Config{e.namespace: {}}, DefaultLabelSelector: labels.Everything()}
}

// start runs a cache or a manager until the test ends.
func (e *Env) start(runnable interface{ Start(context.Context) error }) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = runnable.Start(ctx)
	}()
	e.Cleanup(func() { cancel(); <-done })
}

type accessManager = managedcache.ObjectBoundAccessManager[*corev1.ConfigMap]

func (e *Env) manager() accessManager {
	same := func(_ context.Context, _ *corev1.ConfigMap, config *rest.Config, options cache.Options) (*rest.Config, cache.Options, error) {
		return config, options, nil
	}
	return managedcache.NewObjectBoundAccessManager(logr.Discard(), same, e.config, e.cacheOptions())
}

// access starts a manager, and returns it and the access of an owner with a user
// that watches ConfigMaps.
func (e *Env) access(owner, user *corev1.ConfigMap) (accessManager, managedcache.Accessor) {
	e.Helper()
	m := e.manager()
	e.start(m)
	accessor, err := m.GetWithUser(e.Context(), owner, user, []client.Object{e.configMap("any", "")})
	e.must(err)
	return m, accessor
}

// trackingCache starts a tracking cache.
func (e *Env) trackingCache() managedcache.TrackingCache {
	e.Helper()
	tracking, err := managedcache.NewTrackingCache(logr.Discard(), e.config, e.cacheOptions())
	e.must(err)
	e.start(tracking)
	return tracking
}

func holder(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: apitypes.UID(name)},
	}
}

// read reads from a cache until it succeeds.
func (e *Env) read(reader client.Reader, list client.ObjectList) {
	e.Helper()
	e.eventually("the cache can be read", func() bool { return reader.List(e.Context(), list) == nil })
}

func configMapList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(configMapKind.GroupVersion().WithKind("ConfigMapList"))
	return list
}

func cacheKinds(t *testing.T, e *Env) {
	tracking := e.trackingCache()
	user := holder(e.namespace, "user")
	e.must(tracking.Watch(e.Context(), user, sets.New(configMapKind)))
	e.create(e.configMap("settings", "red"))
	e.eventually("the cache shows the object", func() bool {
		list := configMapList()
		e.read(tracking, list)
		return slices.ContainsFunc(list.Items, func(u unstructured.Unstructured) bool { return u.GetName() == "settings" })
	})
	if !slices.Contains(tracking.GetGVKs(), configMapKind) {
		t.Errorf("kinds: %v", tracking.GetGVKs())
	}
	e.must(tracking.Free(e.Context(), user))
	if len(tracking.GetGVKs()) > 0 {
		t.Errorf("kinds without users: %v", tracking.GetGVKs())
	}
}

func cacheWatchers(t *testing.T, e *Env) {
	owner, user := holder(e.namespace, "owner"), holder(e.namespace, "user")
	m, accessor := e.access(owner, user)
	e.read(accessor, configMapList())
	names := map[string]bool{}
	for _, key := range m.GetWatchersForGVK(configMapKind) {
		names[key.Name] = true
	}
	if !names["owner"] || !names["user"] {
		t.Errorf("watchers: %v", names)
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	managedcache.NewEnqueueWatchingObjects(m, &corev1.ConfigMap{}, scheme.Scheme).
		Create(e.Context(), event.CreateEvent{Object: e.configMap("any", "")}, queue)
	if queue.Len() < 2 {
		t.Errorf("%d requests, want those of the owner and the user", queue.Len())
	}
}

func cacheLazy(t *testing.T, e *Env) {
	owner := holder(e.namespace, "owner")
	_, accessor := e.access(owner, owner)
	if len(accessor.GetGVKs()) > 0 {
		t.Errorf("informers before the first read: %v", accessor.GetGVKs())
	}
	e.read(accessor, configMapList())
	if !slices.Contains(accessor.GetGVKs(), configMapKind) {
		t.Errorf("informers after the first read: %v", accessor.GetGVKs())
	}
}

func cacheFree(t *testing.T, e *Env) {
	owner, user := holder(e.namespace, "owner"), holder(e.namespace, "user")
	m, accessor := e.access(owner, user)
	e.read(accessor, configMapList())
	e.must(m.Free(e.Context(), owner))
	if err := accessor.List(e.Context(), configMapList()); err != nil {
		t.Errorf("the access was ended although it has a user: %v", err)
	}
}

func cacheKey(t *testing.T, e *Env) {
	owner := holder(e.namespace, "owner")
	owner.TypeMeta = metav1.TypeMeta{}
	m, accessor := e.access(owner, owner)
	e.read(accessor, configMapList())
	metrics, err := m.CollectMetrics(e.Context())
	e.must(err)
	for key := range metrics {
		if key.Kind != "" {
			t.Errorf("the key of a typed owner without TypeMeta is %v", key)
		}
	}
}

func cacheMetrics(t *testing.T, e *Env) {
	tracking := e.trackingCache()
	e.create(e.configMap("settings", "red"))
	e.read(tracking, configMapList())
	typed := &corev1.ConfigMapList{}
	e.eventually("the cache shows the object", func() bool { e.read(tracking, typed); return len(typed.Items) > 0 })
	untyped := configMapList()
	e.eventually("both informers show the same", func() bool { e.read(tracking, untyped); return len(untyped.Items) == len(typed.Items) })
	counts, err := tracking.GetObjectsPerInformer(e.Context())
	e.must(err)
	if counts[configMapKind] != len(typed.Items) {
		t.Errorf("%d objects, counted %d", len(typed.Items), counts[configMapKind])
	}
}

func hashCases() []Case {
	return []Case{{"hashes/collision-count", hashCollisionCount}}
}

func hashCollisionCount(t *testing.T, _ *Env) {
	hasher := sha256.New()
	util.DeepHashObject(hasher, "value")
	count := make([]byte, 8)
	binary.LittleEndian.PutUint32(count, 7)
	hasher.Write(count)
	if got, want := util.ComputeSHA256Hash("value", new(uint32(7))), hex.EncodeToString(hasher.Sum(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
