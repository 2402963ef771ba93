// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"pkg.package-operator.run/boxcutter/managedcache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	configMapKind      = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secretKind         = corev1.SchemeGroupVersion.WithKind("Secret")
	serviceKind        = corev1.SchemeGroupVersion.WithKind("Service")
	serviceAccountKind = corev1.SchemeGroupVersion.WithKind("ServiceAccount")
)

// stage is a namespace of the real API server for the tests of a cache. After the test, no goroutine and no watch of
// the cache remains.
type stage struct {
	testing.TB
	checker

	namespace string
	// user has all rights.
	user client.Client
	// watches is the proxy for the requests of the cache.
	watches *watchProxy
}

func newStage(t *testing.T) *stage {
	t.Helper()
	cluster := controlplane.Shared(t)
	before := goleak.IgnoreCurrent()
	s := &stage{TB: t, checker: checker{t}, namespace: cluster.Namespace(t), watches: newWatchProxy()}
	t.Cleanup(func() {
		s.eventually("all watches are closed", func() bool { return len(s.watches.watched()) == 0 })
		// Connections stay open for later tests.
		goleak.VerifyNone(t, before,
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
			goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
			goleak.IgnoreAnyFunction("net/http.(*http2ClientConn).readLoop"))
	})
	var err error
	s.user, err = client.New(cluster.Config, client.Options{})
	s.must(err)
	return s
}

// config returns the configuration of a user with the permission to discover kinds only.
func (s *stage) config(userName string) *rest.Config {
	config := rest.CopyConfig(controlplane.Shared(s).Config)
	config.Impersonate.UserName = userName
	config.Wrap(s.watches.wrap)
	return config
}

// cache starts a cache with the permissions of a user; "" is the administrator.
func (s *stage) cache(userName string, options cache.Options) managedcache.TrackingCache {
	s.Helper()
	if options.DefaultNamespaces == nil {
		options.DefaultNamespaces = map[string]cache.Config{s.namespace: {}}
	}
	c, err := managedcache.NewTrackingCache(logr.Discard(), s.config(userName), options)
	s.must(err)
	s.start(c)
	return c
}

// start runs a runnable until the test ends.
func (s *stage) start(runnable interface{ Start(context.Context) error }) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := runnable.Start(ctx); err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(func() { cancel(); running.Wait() })
}

// object returns an object of a kind in the namespace.
func (s *stage) object(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(kind)
	out.SetNamespace(s.namespace)
	out.SetName(name)
	return out
}

// put creates an object with labels.
func (s *stage) put(kind schema.GroupVersionKind, name string, labels map[string]string) *unstructured.Unstructured {
	s.Helper()
	out := s.object(kind, name)
	out.SetLabels(labels)
	s.must(s.user.Create(s.Context(), out))
	return out
}

// reads gets an object from a cache. The call must return soon, with any result.
func (s *stage) reads(c client.Reader, kind schema.GroupVersionKind, name string) error {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), waitTimeout)
	defer cancel()
	out := s.object(kind, name)
	err := c.Get(ctx, client.ObjectKeyFromObject(out), out)
	if errors.Is(err, context.DeadlineExceeded) {
		s.Fatalf("reading %s %s does not return: %v", kind.Kind, name, err)
	}
	return err
}

// shows waits until a cache has an object.
func (s *stage) shows(c client.Reader, kind schema.GroupVersionKind, name string) {
	s.Helper()
	var last error
	defer func() {
		if s.Failed() {
			s.Logf("last error: %v", last)
		}
	}()
	s.eventually(kind.Kind+" "+name+" is shown", func() bool {
		last = s.reads(c, kind, name)
		return last == nil
	})
}

// watcher returns a user of a cache.
func (s *stage) watcher(name string) client.Object {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, UID: apitypes.UID(name)}}
}

// grant gives a user all permissions for resources of the namespace, until the test calls revoke.
func (s *stage) grant(userName string, group string, resources ...string) (revoke func()) {
	s.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "grant-"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}},
	}
	s.must(s.user.Create(s.Context(), role))
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: userName}},
	}
	s.must(s.user.Create(s.Context(), binding))
	controlplane.Shared(s).AwaitAllowed(s, authorizationv1.SubjectAccessReviewSpec{User: userName, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace: s.namespace, Group: group, Resource: resources[0], Verb: "watch",
	}})
	return func() { s.Helper(); s.must(s.user.Delete(s.Context(), binding)) }
}

// queue returns a queue of requests for the duration of the test.
func (s *stage) queue() workqueue.TypedRateLimitingInterface[reconcile.Request] {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	s.Cleanup(q.ShutDown)
	return q
}

// comes waits for a request, and drops all others.
func (s *stage) comes(q workqueue.TypedRateLimitingInterface[reconcile.Request], want string) {
	s.Helper()
	s.eventually(want+" is enqueued", func() bool {
		for q.Len() > 0 {
			request, _ := q.Get()
			q.Done(request)
			if request.Name == want {
				return true
			}
		}
		return false
	})
}

// byName enqueues "<kind of event> <name of the object, or else its kind>".
func byName() handler.EventHandler {
	add := func(what string, obj client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		name := obj.GetName()
		if name == "" {
			name = obj.GetObjectKind().GroupVersionKind().Kind
		}
		q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: what + " " + name}})
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc:  func(_ context.Context, e event.CreateEvent, q queue) { add("create", e.Object, q) },
		UpdateFunc:  func(_ context.Context, e event.UpdateEvent, q queue) { add("update", e.ObjectNew, q) },
		DeleteFunc:  func(_ context.Context, e event.DeleteEvent, q queue) { add("delete", e.Object, q) },
		GenericFunc: func(_ context.Context, e event.GenericEvent, q queue) { add("generic", e.Object, q) },
	}
}

// watchProxy records the open watches, and can interrupt them.
type watchProxy struct {
	mu   sync.Mutex
	open map[*stream]string
	// out makes every request fail as if the API server were unavailable.
	out bool
}

func newWatchProxy() *watchProxy { return &watchProxy{open: map[*stream]string{}} }

// stream is the body of a watch.
type stream struct {
	io.ReadCloser
	closed func()
}

func (s *stream) Close() error {
	s.closed()
	return s.ReadCloser.Close()
}

func (p *watchProxy) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if p.isOut() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		response, err := next.RoundTrip(r)
		if err != nil || r.URL.Query().Get("watch") == "" || response.StatusCode != http.StatusOK {
			return response, err
		}
		body := &stream{ReadCloser: response.Body}
		body.closed = func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.open, body)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open[body] = r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		response.Body = body
		return response, nil
	})
}

func (p *watchProxy) isOut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}

func (p *watchProxy) setOut(out bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = out
}

// watched returns the sorted resources with open watches.
func (p *watchProxy) watched() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Values(p.open))
}

// cut ends the watches of a resource, as an API server does from time to time.
func (p *watchProxy) cut(resource string) {
	p.mu.Lock()
	streams := slices.Collect(maps.Keys(p.open))
	streams = slices.DeleteFunc(streams, func(s *stream) bool { return p.open[s] != resource })
	p.mu.Unlock()
	for _, s := range streams {
		_ = s.Close()
	}
}

func TestTrackingCache_WatchFreeWatch(t *testing.T) {
	s := newStage(t)
	s.put(configMapKind, "a", nil)
	s.put(secretKind, "b", nil)
	c := s.cache("", cache.Options{})
	ann, bob := s.watcher("ann"), s.watcher("bob")
	s.must(c.Watch(t.Context(), ann, sets.New(configMapKind, secretKind)))
	s.must(c.Watch(t.Context(), bob, sets.New(secretKind)))
	s.shows(c, configMapKind, "a")
	s.shows(c, secretKind, "b")
	watch := func(want ...string) {
		t.Helper()
		s.eventually(fmt.Sprintf("watched resources: %v", want), func() bool { return slices.Equal(s.watches.watched(), want) })
	}
	watch("configmaps", "secrets")
	s.must(c.Free(t.Context(), ann))
	watch("secrets")
	if diff := cmp.Diff([]schema.GroupVersionKind{secretKind}, c.GetGVKs()); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	// The cache has a change between two watches after the second one has started.
	s.put(configMapKind, "c", nil)
	s.must(s.user.Delete(t.Context(), s.object(configMapKind, "a")))
	s.must(c.Watch(t.Context(), bob, sets.New(configMapKind)))
	watch("configmaps")
	s.shows(c, configMapKind, "c")
	if err := s.reads(c, configMapKind, "a"); !apierrors.IsNotFound(err) {
		t.Errorf("reading an object that was deleted between the watches: %v", err)
	}
	counts, err := c.GetObjectsPerInformer(t.Context())
	s.must(err)
	if counts[configMapKind] != 2 || len(counts) != 1 { // each namespace has a kube-root-ca.crt
		t.Errorf("objects: %v", counts)
	}
	s.must(c.RemoveInformer(t.Context(), s.object(configMapKind, "")))
	watch()
	s.shows(c, configMapKind, "c")
	s.must(c.Free(t.Context(), bob))
	watch()
}

func TestTrackingCache_ForbiddenKindComesBack(t *testing.T) {
	s := newStage(t)
	s.put(configMapKind, "a", nil)
	s.put(secretKind, "b", nil)
	name := "other-" + s.namespace
	s.grant(name, "", "configmaps")
	c := s.cache(name, cache.Options{})
	q := s.queue()
	s.must(c.Source(byName()).Start(t.Context(), q))
	s.eventually("a role takes effect", func() bool { return s.reads(c, configMapKind, "a") == nil })

	s.must(c.Watch(t.Context(), s.watcher("ann"), sets.New(configMapKind, secretKind)))
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(func() {
			if err := s.reads(c, secretKind, "b"); !apierrors.IsForbidden(err) {
				t.Errorf("reading a forbidden kind: %v", err)
			}
		})
	}
	waiting.Wait()
	s.shows(c, configMapKind, "a")
	s.comes(q, "create a")

	revoke := s.grant(name, "", "secrets")
	s.shows(c, secretKind, "b")
	s.comes(q, "create b")

	// The permission is revoked again. The API server checks it when the watch is renewed.
	revoke()
	s.eventually("the permission is revoked", func() bool {
		s.watches.cut("secrets")
		return apierrors.IsForbidden(s.reads(c, secretKind, "b"))
	})
	s.comes(q, "generic Secret")
	s.put(configMapKind, "later", nil)
	s.shows(c, configMapKind, "later")
	s.comes(q, "create later")

	s.grant(name, "", "secrets")
	s.eventually("a Watch restores the kind", func() bool {
		s.must(c.Watch(t.Context(), s.watcher("ann"), sets.New(configMapKind, secretKind)))
		return slices.Contains(s.watches.watched(), "secrets")
	})
	s.shows(c, secretKind, "b")
}

func TestTrackingCache_SurvivesOutage(t *testing.T) {
	s := newStage(t)
	s.put(configMapKind, "before", nil)
	s.put(secretKind, "before", nil)
	c := s.cache("", cache.Options{})
	s.must(c.Watch(t.Context(), s.watcher("ann"), sets.New(configMapKind)))
	s.shows(c, configMapKind, "before")
	_, err := c.GetInformer(t.Context(), s.object(serviceAccountKind, "")) // so that all kinds are known
	s.must(err)

	s.watches.setOut(true)
	s.watches.cut("configmaps")
	s.put(configMapKind, "during", nil)
	s.must(s.reads(c, configMapKind, "before"))
	if err := s.reads(c, secretKind, "before"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("reading a kind that is not cached: %v", err)
	}
	s.watches.setOut(false)
	s.shows(c, secretKind, "before")
	s.shows(c, configMapKind, "during")
}

func (s *stage) definition(kind string) (*unstructured.Unstructured, schema.GroupVersionKind) {
	plural, group := strings.ToLower(kind)+"s", s.namespace+".example.com"
	out := s.object(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, plural+"."+group)
	out.SetNamespace("")
	out.Object["spec"] = map[string]any{
		"group": group, "scope": "Namespaced",
		"names": map[string]any{"kind": kind, "plural": plural},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object"},
		}}},
	}
	return out, schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
}

func TestTrackingCache_CRDRemovedAndAdded(t *testing.T) {
	s := newStage(t)
	s.put(configMapKind, "a", nil)
	definition, kind := s.definition("Widget")
	c := s.cache("", cache.Options{})
	q := s.queue()
	s.must(c.Source(byName()).Start(t.Context(), q))
	s.must(c.Watch(t.Context(), s.watcher("ann"), sets.New(configMapKind, kind)))
	if err := s.reads(c, kind, "x"); !meta.IsNoMatchError(err) {
		t.Errorf("reading an unknown kind: %v", err)
	}
	for round := range 3 {
		name := fmt.Sprint("x", round)
		s.must(s.user.Create(t.Context(), definition.DeepCopy()))
		s.eventually("an object can be created", func() bool { return s.user.Create(t.Context(), s.object(kind, name)) == nil })
		s.shows(c, kind, name)
		s.comes(q, "create "+name)
		s.must(s.user.Delete(t.Context(), definition.DeepCopy()))
		s.comes(q, "delete "+name)
		s.eventually("the kind is unknown again", func() bool {
			err := s.reads(c, kind, name)
			s.shows(c, configMapKind, "a")
			// The mapper can be outdated.
			return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && !slices.Contains(c.GetGVKs(), kind)
		})
	}
}

func TestTrackingCache_ConcurrentUsers(t *testing.T) {
	s := newStage(t)
	kinds := []schema.GroupVersionKind{configMapKind, secretKind, serviceKind, serviceAccountKind}
	for _, kind := range kinds[:2] {
		s.put(kind, "thing", nil)
	}
	name := "other-" + s.namespace
	s.grant(name, "", "configmaps", "secrets", "serviceaccounts") // but not services
	c := s.cache(name, cache.Options{})
	s.eventually("the role takes effect", func() bool { return s.reads(c, secretKind, "thing") == nil })
	q := s.queue()
	s.must(c.Source(byName()).Start(t.Context(), q))
	var users sync.WaitGroup
	for i := range 40 {
		users.Go(func() {
			user, random := s.watcher(fmt.Sprint("user", i)), rand.New(rand.NewPCG(uint64(i), 7))
			for range 15 {
				wanted := sets.New[schema.GroupVersionKind]()
				for range 1 + random.IntN(3) {
					wanted.Insert(kinds[random.IntN(len(kinds))])
				}
				if err := c.Watch(t.Context(), user, wanted); err != nil {
					t.Errorf("watching: %v", err)
				}
				for kind := range wanted {
					if err := s.reads(c, kind, "thing"); kind == serviceKind && !apierrors.IsForbidden(err) || slices.Contains(kinds[:2], kind) && err != nil {
						t.Errorf("reading %s: %v", kind.Kind, err)
					}
				}
			}
			if i%2 == 0 {
				if err := c.Free(t.Context(), user); err != nil {
					t.Errorf("freeing: %v", err)
				}
			}
		})
	}
	users.Wait()
	for i := range 40 {
		s.must(c.Free(t.Context(), s.watcher(fmt.Sprint("user", i))))
	}
	if got := c.GetGVKs(); len(got) > 0 {
		t.Errorf("remaining informers: %v", got)
	}
	s.eventually("all watches are closed", func() bool { return len(s.watches.watched()) == 0 })
}
