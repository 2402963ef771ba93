// SPDX-License-Identifier: Apache-2.0

package order

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/internal/object"
)

// user is a user of a server. Each request has a connection for itself and no other goroutine, so the bubble of its caller is not idle.
type user struct {
	url, token  string
	connections chan net.Conn // without requests
}

func connect(url, token string, dial func() (net.Conn, error)) (u user, err error) {
	u = user{url, token, make(chan net.Conn, 8)}
	for range cap(u.connections) {
		connection, err := dial()
		if err != nil {
			return u, err
		}
		u.connections <- connection
	}
	return u, nil
}

// login returns a user of the API server.
func login(config *rest.Config) (user, error) {
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return user{}, err
	}
	return connect(config.Host, config.BearerToken, func() (net.Conn, error) {
		return tls.Dial("tcp", strings.TrimPrefix(config.Host, "https://"), security)
	})
}

// answer is a response with its whole body.
type answer struct {
	code int
	body []byte
}

func (a answer) ok() bool { return a.code < 300 }

// do sends a request and reads the answer. It sends it again while the API server begins to serve a CRD.
func (u user) do(method, uri, contentType string, body []byte) (a answer, err error) {
	connection := <-u.connections
	defer func() { u.connections <- connection }()
	for a.code == 0 || a.code == http.StatusTooManyRequests {
		request, err := http.NewRequest(method, u.url+uri, bytes.NewReader(body)) //nolint:noctx // the API server always answers
		if err != nil {
			return a, err
		}
		request.Header = http.Header{"Accept": {"application/json"}, "Content-Type": {contentType}, "Authorization": {"Bearer " + u.token}}
		if err := request.Write(connection); err != nil {
			return a, err
		}
		response, err := http.ReadResponse(bufio.NewReader(connection), request)
		if err != nil {
			return a, err
		}
		a.code = response.StatusCode
		if a.body, err = io.ReadAll(response.Body); err != nil {
			return a, err
		}
	}
	return a, nil
}

// target is a path of the API server, taken apart.
type target struct {
	prefix                           string // /api/v1 or /apis/GROUP/VERSION
	resource, namespace, name, under string // under is the subresource
}

// collection is the path of all objects of the resource.
func (t target) collection() string { return t.prefix + "/" + t.resource }

// key identifies the object in its collection.
func (t target) key() string { return t.namespace + "/" + t.name }

// parse takes a path apart; false for discovery.
func parse(path string) (target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	prefix := 2
	if parts[0] == "apis" {
		prefix = 3
	}
	if parts[0] != "api" && parts[0] != "apis" || len(parts) <= prefix {
		return target{}, false
	}
	t, rest := target{prefix: "/" + strings.Join(parts[:prefix], "/")}, parts[prefix:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		t.namespace, rest = rest[1], rest[2:]
	}
	rest = append(rest, "", "")
	t.resource, t.name, t.under = rest[0], rest[1], rest[2]
	return t, true
}

// change is a state of an object, or its end.
type change struct {
	at      int64 // resource version
	deleted bool
	object  *unstructured.Unstructured
	before  *unstructured.Unstructured // nil if it is new
}

func keyOf(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }

// history holds the changes of a resource since the begin of the schedule.
type history struct {
	collection, kind, version string
	listed                    int64 // resource version at the begin
	current                   map[string]*unstructured.Unstructured
	changes                   []change
}

func (h *history) last() int64 {
	if n := len(h.changes); n > 0 {
		return h.changes[n-1].at
	}
	return h.listed
}

// server is the API server, with the hub: the history of each resource.
type server struct {
	admin, installer, etcd user
	watches                dynamic.Interface
	ca                     string // of the conversion webhook, in base64
	programs               []int  // processes of the API server and etcd
	empty                  state  // without an installation

	mu        sync.Mutex
	schemas   map[string]answer   // by URI
	resources map[string]*history // by collection
	changed   chan struct{}       // closed at the next change
	watched   chan *history       // to watch
}

// newest returns the resource version of the last change.
func (s *server) newest() (version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.resources {
		version = max(version, h.last())
	}
	return version
}

// observe returns the history of a resource. The first call lists the resource, and begins to watch it.
func (s *server) observe(collection string) *history {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resources[collection] == nil {
		s.resources[collection] = &history{collection: collection}
		s.list(s.resources[collection])
		s.watched <- s.resources[collection]
	}
	return s.resources[collection]
}

// list begins a history with the objects that exist. Without them no schedule can go on.
func (s *server) list(h *history) {
	found, err := s.admin.do("GET", h.collection, "", nil)
	list := &unstructured.UnstructuredList{}
	if err != nil || !found.ok() || list.UnmarshalJSON(found.body) != nil {
		panic(fmt.Sprintf("listing %s: %v %.300s", h.collection, err, found.body)) //nolint:forbidigo // see above
	}
	h.kind, h.version, h.listed = strings.TrimSuffix(list.GetKind(), "List"), list.GetAPIVersion(), number(list.GetResourceVersion())
	h.current, h.changes = map[string]*unstructured.Unstructured{}, nil
	for i := range list.Items {
		h.current[keyOf(&list.Items[i])] = &list.Items[i]
	}
}

// watch follows a resource until the API server ends.
func (s *server) watch(h *history) {
	t, _ := parse(h.collection)
	group, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(t.prefix, "/apis/"), "/api/"))
	for err == nil {
		s.mu.Lock()
		from := metav1.ListOptions{ResourceVersion: fmt.Sprint(h.last())}
		s.mu.Unlock()
		var events watch.Interface
		if events, err = s.watches.Resource(group.WithResource(t.resource)).Watch(context.Background(), from); err == nil {
			for event := range events.ResultChan() {
				s.add(h, event.Type == watch.Deleted, event.Object.(*unstructured.Unstructured))
			}
		}
	}
}

func (s *server) add(h *history, deleted bool, o *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := change{at: number(o.GetResourceVersion()), deleted: deleted, object: o, before: h.current[keyOf(o)]}
	if c.at <= h.listed { // it belongs to the former schedule
		return
	}
	h.changes = append(h.changes, c)
	if h.current[keyOf(o)] = o; deleted {
		delete(h.current, keyOf(o))
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until a condition on the histories is met.
func (s *server) await(met func() bool) {
	for {
		s.mu.Lock()
		done, changed := met(), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		<-changed
	}
}

// get returns an object of the hub; nil if none exists.
func (s *server) get(t target) *unstructured.Unstructured {
	h := s.observe(t.collection())
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.current[t.key()]
}

// all returns the objects of a resource at a resource version, sorted by key, and this version; 0 is the newest.
func (s *server) all(collection string, at int64) (objects []*unstructured.Unstructured, version int64) {
	h := s.observe(collection)
	s.mu.Lock()
	defer s.mu.Unlock()
	then := maps.Clone(h.current)
	version = h.last()
	for _, c := range slices.Backward(h.changes) {
		if at == 0 || c.at <= at {
			break
		}
		version = c.at - 1
		if delete(then, keyOf(c.object)); c.before != nil {
			then[keyOf(c.object)] = c.before
		}
	}
	for _, key := range slices.Sorted(maps.Keys(then)) {
		objects = append(objects, then[key])
	}
	return objects, version
}

const crdCollection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// write sends a request and returns when the hub has seen its change, and the API server has reacted to a changed CRD.
func (s *server) write(by user, method, uri, contentType string, body []byte) (answer, error) {
	path, query, _ := strings.Cut(uri, "?")
	t, _ := parse(path)
	if t.resource == "machines" || strings.Contains(query, "dryRun=") { // no informer has instances
		return by.do(method, uri, contentType, body)
	}
	h := s.observe(t.collection())
	got, err := by.do(method, uri, contentType, body)
	reply := struct {
		Kind              string
		metav1.ObjectMeta `json:"metadata"`
	}{}
	if err != nil || !got.ok() || json.Unmarshal(got.body, &reply) != nil {
		return got, err
	}
	gone := reply.Kind == "Status" || reply.DeletionTimestamp != nil && len(reply.Finalizers) == 0
	s.await(func() bool {
		return gone && h.current[t.key()] == nil || !gone && h.last() >= number(reply.ResourceVersion)
	})
	if t.collection() == crdCollection {
		s.settle(reply.Name)
	}
	return got, nil
}

// settle waits for the controllers of the API server: a new CRD is served, and a deleted CRD is gone.
func (s *server) settle(name string) {
	var crd *unstructured.Unstructured
	h := s.observe(crdCollection)
	s.await(func() bool {
		crd = h.current["/"+name]
		deleting := crd != nil && crd.GetDeletionTimestamp() != nil
		return crd == nil || deleting && !slices.Equal(crd.GetFinalizers(), []string{"customresourcecleanup.apiextensions.k8s.io"}) || !deleting && strings.HasPrefix(conditions(crd)["Established"], "True")
	})
	if crd == nil || crd.GetDeletionTimestamp() != nil {
		return
	}
	for _, version := range object.CRDVersions(crd) {
		for object.ServesVersion(crd, version) {
			found, err := s.admin.do("GET", "/apis/"+text(crd, "spec", "group")+"/"+version, "", nil)
			if err != nil || found.ok() && bytes.Contains(found.body, []byte(`"name":"`+text(crd, "spec", "names", "plural")+`"`)) {
				break
			}
		}
	}
}

func number(version string) int64 {
	n, _ := strconv.ParseInt(version, 10, 64)
	return n
}
