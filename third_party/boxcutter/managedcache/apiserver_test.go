// SPDX-License-Identifier: Apache-2.0

package managedcache_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pkg.package-operator.run/boxcutter/managedcache"
)

var (
	configMap = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	secret    = corev1.SchemeGroupVersion.WithKind("Secret")
	widget    = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
)

// apiServer is an API server on loopback with list and watch. Both can fail on request.
type apiServer struct {
	*httptest.Server
	// mapper is the discovery; it knows ConfigMap and Secret.
	mapper *discovery

	mu        sync.Mutex
	resources map[string]*resource
	users     []string
}

// resource holds the objects of one kind. All fields are guarded by the lock of the
// server.
type resource struct {
	gvk     schema.GroupVersionKind
	log     []change
	objects map[string]map[string]any
	// changed is closed, and replaced, on each change.
	changed chan struct{}
	// broken is closed, and replaced, to end the open watches.
	failedCh chan struct{}
	// respond replaces list and watch.
	respond http.HandlerFunc
	// requests is the number of list and watch requests.
	requests int
	// selectors are the label selectors of the requests.
	selectors sets.Set[string]
}

type change struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

// newServer starts a server for the test, and checks that no goroutine remains at its end.
func newServer(t *testing.T) *apiServer {
	t.Helper()
	before := goleak.IgnoreCurrent()
	s := &apiServer{mapper: newDiscovery(configMap, secret), resources: map[string]*resource{}}
	for path, gvk := range map[string]schema.GroupVersionKind{
		"/api/v1/configmaps": configMap, "/api/v1/secrets": secret, "/apis/example.com/v1/widgets": widget,
	} {
		s.resources[path] = &resource{
			gvk: gvk, objects: map[string]map[string]any{},
			changed: make(chan struct{}), failedCh: make(chan struct{}), selectors: sets.New[string](),
		}
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.Close()
		goleak.VerifyNone(t, before)
	})
	return s
}

func (s *apiServer) of(gvk schema.GroupVersionKind) *resource {
	for _, r := range s.resources {
		if r.gvk == gvk {
			return r
		}
	}
	return nil
}

// with calls a function that reads or changes a kind under the lock.
func (s *apiServer) with(gvk schema.GroupVersionKind, do func(*resource)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s.of(gvk))
}

// put creates or updates an object; remove deletes one.
func (s *apiServer) put(gvk schema.GroupVersionKind, name string, labels map[string]any) {
	s.with(gvk, func(r *resource) {
		kind := "ADDED"
		if r.objects[name] != nil {
			kind = "MODIFIED"
		}
		r.objects[name] = r.record(kind, name, labels)
	})
}

func (s *apiServer) remove(gvk schema.GroupVersionKind, name string) {
	s.with(gvk, func(r *resource) {
		delete(r.objects, name)
		r.record("DELETED", name, nil)
	})
}

func (r *resource) record(kind, name string, labels map[string]any) map[string]any {
	apiVersion, k := r.gvk.ToAPIVersionAndKind()
	obj := map[string]any{"apiVersion": apiVersion, "kind": k, "metadata": map[string]any{
		"namespace": "default", "name": name, "uid": "uid-" + name, "labels": labels,
		"resourceVersion": strconv.Itoa(len(r.log) + 1),
	}}
	r.log = append(r.log, change{Type: kind, Object: obj})
	close(r.changed)
	r.changed = make(chan struct{})
	return obj
}

// answer makes respond handle all requests for a kind from now on; nil restores the normal behavior. Open watches end.
func (s *apiServer) answer(gvk schema.GroupVersionKind, respond http.HandlerFunc) {
	s.with(gvk, func(r *resource) {
		r.respond = respond
		close(r.failedCh)
		r.failedCh = make(chan struct{})
	})
}

func (s *apiServer) requests(gvk schema.GroupVersionKind) (count int) {
	s.with(gvk, func(r *resource) { count = r.requests })
	return count
}

// refuse responds with a status that has details.
func refuse(code int32, reason metav1.StatusReason) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(code))
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: "you may not",
			Details: &metav1.StatusDetails{Kind: "configmaps"},
		})
	}
}

// hang responds when released, or when the client gives up.
func hang(release <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError)(w, r)
		case <-r.Context().Done():
		}
	}
}

func (s *apiServer) serve(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	s.users = append(s.users, req.Header.Get("Impersonate-User"))
	path, namespace := withoutNamespace(req.URL.Path)
	r := s.resources[path]
	if r == nil {
		s.mu.Unlock()
		http.NotFound(w, req)
		return
	}
	r.requests++
	r.selectors.Insert(req.URL.Query().Get("labelSelector") + "@" + namespace)
	respond := r.respond
	if respond == nil {
		respond = s.list(r)
		if req.URL.Query().Get("watch") != "" {
			respond = s.watch(r)
		}
	}
	s.mu.Unlock()
	respond(w, req)
}

// withoutNamespace removes the namespace from a path.
func withoutNamespace(path string) (string, string) {
	before, after, found := strings.Cut(path, "/namespaces/")
	if !found {
		return path, ""
	}
	namespace, kind, _ := strings.Cut(after, "/")
	return before + "/" + kind, namespace
}

func (s *apiServer) list(r *resource) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		apiVersion, kind := r.gvk.ToAPIVersionAndKind()
		items := []map[string]any{}
		for _, obj := range r.objects {
			items = append(items, obj)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": apiVersion, "kind": kind + "List", "items": items,
			"metadata": map[string]any{"resourceVersion": strconv.Itoa(len(r.log))},
		})
	}
}

func (s *apiServer) watch(r *resource) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		out := json.NewEncoder(w)
		next, _ := strconv.Atoi(req.URL.Query().Get("resourceVersion"))
		s.mu.Lock()
		failedCh := r.failedCh
		if req.URL.Query().Get("sendInitialEvents") == "true" {
			next = r.initial(out)
		}
		for {
			for ; next < len(r.log); next++ {
				_ = out.Encode(r.log[next])
			}
			changed := r.changed
			s.mu.Unlock()
			w.(http.Flusher).Flush()
			select {
			case <-changed:
			case <-failedCh:
				return
			case <-req.Context().Done():
				return
			}
			s.mu.Lock()
		}
	}
}

// initial streams the existing objects, and the bookmark after them.
func (r *resource) initial(out *json.Encoder) int {
	for _, obj := range r.objects {
		_ = out.Encode(change{Type: "ADDED", Object: obj})
	}
	apiVersion, kind := r.gvk.ToAPIVersionAndKind()
	_ = out.Encode(change{Type: "BOOKMARK", Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{
		"resourceVersion": strconv.Itoa(len(r.log)),
		"annotations":     map[string]any{metav1.InitialEventsAnnotationKey: "true"},
	}}})
	return len(r.log)
}

// discovery is a REST mapper that takes new kinds.
type discovery struct {
	mu sync.RWMutex
	*meta.DefaultRESTMapper
}

func newDiscovery(kinds ...schema.GroupVersionKind) *discovery {
	d := &discovery{DefaultRESTMapper: meta.NewDefaultRESTMapper(nil)}
	for _, gvk := range kinds {
		d.Add(gvk, meta.RESTScopeNamespace)
	}
	return d
}

func (d *discovery) Add(gvk schema.GroupVersionKind, scope meta.RESTScope) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.DefaultRESTMapper.Add(gvk, scope)
}

func (d *discovery) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.DefaultRESTMapper.RESTMapping(gk, versions...)
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, corev1.AddToScheme(scheme))
	return scheme
}

func (s *apiServer) options(t *testing.T) cache.Options {
	t.Helper()
	return cache.Options{Scheme: testScheme(t), Mapper: s.mapper}
}

// newCache returns a cache that is not started.
func newCache(t *testing.T, s *apiServer, change ...func(*cache.Options)) managedcache.TrackingCache {
	t.Helper()
	config := &rest.Config{Host: s.URL, QPS: -1}
	options := s.options(t)
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(client.CloseIdleConnections)
	options.HTTPClient = client
	for _, c := range change {
		c(&options)
	}
	c, err := managedcache.NewTrackingCache(logr.Discard(), config, options)
	must(t, err)
	return c
}

// starter is a runnable of a manager.
type starter interface {
	Start(ctx context.Context) error
}

// start runs a runnable until the test ends, or until the returned function is called; both wait until it has stopped.
func start(t *testing.T, s starter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Start: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Start did not return after its context ended")
		}
	})
	t.Cleanup(stop)
	return stop
}

// newStarted returns a running cache.
func newStarted(t *testing.T, s *apiServer, change ...func(*cache.Options)) managedcache.TrackingCache {
	t.Helper()
	c := newCache(t, s, change...)
	start(t, c)
	waitStarted(t, c)
	return c
}

func waitStarted(t *testing.T, c cache.Cache) {
	t.Helper()
	if !c.WaitForCacheSync(deadline(t)) {
		t.Fatal("the cache did not start")
	}
}

// deadline returns a context with a deadline after the deadline of any test here.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("timed out waiting until %s", what)
}

func object(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	return obj
}

// get reads an object of a kind as unstructured.
func get(ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, name string) error {
	return reader.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, object(gvk))
}

func user(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid"},
	}
}

func kinds(gvks ...schema.GroupVersionKind) sets.Set[schema.GroupVersionKind] {
	return sets.New(gvks...)
}
