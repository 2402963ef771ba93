// SPDX-License-Identifier: Apache-2.0

package order

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// pool holds goroutines outside of every bubble that send requests, so a goroutine of a bubble that waits for an answer does not count as durably
// blocked.
type pool struct {
	host   string // with the scheme
	idle   chan sender
	client *http.Client
}

type sender struct {
	requests chan *http.Request
	answers  chan result
}

func newPool(host string, client *http.Client) pool {
	p := pool{host, make(chan sender, 8), client}
	for range cap(p.idle) {
		s := sender{make(chan *http.Request), make(chan result)}
		p.idle <- s
		go func() {
			for request := range s.requests {
				got := result{}
				response, err := client.Do(request)
				if got.err = err; err == nil {
					got.code = response.StatusCode
					got.body, got.err = io.ReadAll(response.Body)
					_ = response.Body.Close()
				}
				s.answers <- got
			}
		}()
	}
	return p
}

// poolOf returns a pool of a user of the API server.
func poolOf(kubeconfig string) (pool, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return pool{}, err
	}
	config.NextProtos, config.DisableCompression = []string{"http/1.1"}, true // the cheapest
	client, err := rest.HTTPClientFor(config)
	return newPool(config.Host, client), err
}

// answer is the response of the API server, with its whole body.
type answer struct {
	code int
	body []byte
}

func (a answer) ok() bool { return a.code < 300 }

// do sends a request and reads the answer.
func (p pool) do(method, uri, accept, contentType string, body []byte) (answer, error) {
	request, err := http.NewRequest(method, p.host+uri, bytes.NewReader(body)) //nolint:noctx // the context of a bubble is of no use outside of it
	if err != nil {
		return answer{}, err
	}
	request.Header = http.Header{"Accept": {accept}, "Content-Type": {contentType}}
	s := <-p.idle
	s.requests <- request
	got := <-s.answers
	p.idle <- s
	return got.answer, got.err
}

// target is a path of the API server, taken apart.
type target struct {
	prefix                           string // /api/v1 or /apis/GROUP/VERSION
	resource, namespace, name, under string // under is the subresource
}

// collection is the path of all objects of the resource.
func (t target) collection() string { return t.prefix + "/" + t.resource }

// key identifies the object.
func (t target) key() string { return t.collection() + " " + t.namespace + "/" + t.name }

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

func (c change) key() string { return c.object.GetNamespace() + "/" + c.object.GetName() }

// history holds the changes of a resource since the last reset.
type history struct {
	kind, version string
	changes       []change
	current       map[string]*unstructured.Unstructured
	listed        int64               // resource version at the reset, or of the list
	uids          map[types.UID]int64 // newest resource version
}

// gone is the resource version of what no longer exists.
const gone = 1 << 62

func (h *history) last() int64 {
	if n := len(h.changes); n > 0 {
		return max(h.listed, h.changes[n-1].at)
	}
	return h.listed
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

// server is the API server, outside of every bubble: connections, and the history of each resource.
type server struct {
	admin, installer, etcd pool
	ca                     string           // of the conversion webhook, in base64
	known                  map[string]entry // what etcd held after the last restore

	mu        sync.Mutex
	schemas   map[string]answer   // by URI
	resources map[string]*history // by collection
	changed   chan struct{}       // closed at the next change
	wanted    chan string         // collections to watch
}

// open returns the server of a bed.
func (b bed) open() (s *server, err error) {
	store := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", b.Etcd) }}
	s = &server{
		etcd: newPool("http://etcd", &http.Client{Transport: store}), ca: b.CA,
		schemas: map[string]answer{}, resources: map[string]*history{}, changed: make(chan struct{}), wanted: make(chan string, 100),
	}
	if s.admin, err = poolOf(b.Admin); err != nil {
		return nil, err
	}
	if s.installer, err = poolOf(b.Installer); err != nil {
		return nil, err
	}
	go func() {
		for collection := range s.wanted {
			go s.watch(collection)
		}
	}()
	s.known, err = s.keys(true)
	return s, err
}

// observe returns the history of a resource. It starts the watch if there is none, and waits for the list.
func (s *server) observe(collection string) *history {
	s.mu.Lock()
	h, known := s.resources[collection]
	if !known {
		h = &history{uids: map[types.UID]int64{}}
		s.resources[collection] = h
		s.wanted <- collection
	}
	s.mu.Unlock()
	s.await(func() bool { return h.current != nil })
	return h
}

// watch follows a resource. Without it no schedule can go on: objects would be missing.
func (s *server) watch(collection string) {
	found, err := s.admin.do("GET", collection, "application/json", "", nil)
	for err == nil && found.code == http.StatusTooManyRequests { // the API server begins to serve a CRD
		found, err = s.admin.do("GET", collection, "application/json", "", nil)
	}
	list := &unstructured.UnstructuredList{}
	if err = errors.Join(err, list.UnmarshalJSON(found.body)); err != nil || !found.ok() {
		panic(fmt.Sprintf("listing %s: %v %.300s", collection, err, found.body)) //nolint:forbidigo // see above
	}
	s.mu.Lock()
	h := s.resources[collection]
	h.kind, h.version, h.listed = strings.TrimSuffix(list.GetKind(), "List"), list.GetAPIVersion(), number(list.GetResourceVersion())
	h.current = map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		h.current[change{object: &list.Items[i]}.key()] = &list.Items[i]
	}
	s.announce()
	s.mu.Unlock()
	for err == nil {
		err = s.follow(collection, h)
	}
}

// follow follows a resource until the watch ends, as it does when the API server stores another state of a CRD. It returns an error when the API
// server has ended.
func (s *server) follow(collection string, h *history) error {
	s.mu.Lock()
	from := h.last()
	s.mu.Unlock()
	response, err := s.admin.client.Get(fmt.Sprintf("%s%s?watch=1&timeoutSeconds=86400&resourceVersion=%d", s.admin.host, collection, from)) //nolint:noctx // until the end of the process
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for decoder := json.NewDecoder(response.Body); response.StatusCode == http.StatusOK; {
		event := struct {
			Type   string
			Object unstructured.Unstructured
		}{}
		if decoder.Decode(&event) != nil {
			return nil
		}
		if event.Type == "ERROR" {
			panic(fmt.Sprintf("watching %s: %v", collection, event.Object)) //nolint:forbidigo // see watch
		}
		s.add(h, event.Type == "DELETED", &event.Object)
	}
	return nil
}

func (s *server) add(h *history, deleted bool, object *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := change{at: number(object.GetResourceVersion()), deleted: deleted, object: object}
	c.before = h.current[c.key()]
	h.changes = append(h.changes, c)
	h.uids[object.GetUID()] = c.at
	if h.current[c.key()] = object; deleted {
		delete(h.current, c.key())
		h.uids[object.GetUID()] = gone
	}
	s.announce()
}

func (s *server) announce() {
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
func (s *server) get(collection, namespace, name string) *unstructured.Unstructured {
	h := s.observe(collection)
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.current[namespace+"/"+name]
}

// all returns the objects of a resource, sorted by key.
func (s *server) all(collection string) []*unstructured.Unstructured {
	h := s.observe(collection)
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(h.current)
}

func sorted(objects map[string]*unstructured.Unstructured) []*unstructured.Unstructured {
	var keys []string
	for key := range objects {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var out []*unstructured.Unstructured
	for _, key := range keys {
		out = append(out, objects[key])
	}
	return out
}

// list returns the objects at a resource version; 0 is the newest.
func (s *server) list(h *history, at int64) (objects map[string]*unstructured.Unstructured, version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects = map[string]*unstructured.Unstructured{}
	for key, object := range h.current {
		objects[key] = object
	}
	version = h.last()
	for _, c := range slices.Backward(h.changes) {
		if at == 0 || c.at <= at {
			break
		}
		version = c.at - 1
		if delete(objects, c.key()); c.before != nil {
			objects[c.key()] = c.before
		}
	}
	return objects, version
}

const crdCollection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// write sends a request and returns when the hub has seen its change, and the API server has reacted to a changed CRD.
func (s *server) write(p pool, method, uri, contentType string, body []byte) (answer, error) {
	path, query, _ := strings.Cut(uri, "?")
	t, ok := parse(path)
	dry := strings.Contains(query, "dryRun=")
	var h *history
	if ok && method != http.MethodGet && !dry && t.under != "token" && t.resource != "machines" && !strings.HasSuffix(t.resource, "reviews") { // no informer has instances
		h = s.observe(t.collection())
	}
	got, err := p.do(method, uri, "application/json", contentType, body)
	if err != nil || !got.ok() || h == nil {
		return got, err
	}
	object := struct {
		metav1.ObjectMeta `json:"metadata"`
		Details           struct{ UID types.UID }
	}{}
	if err := json.Unmarshal(got.body, &object); err != nil {
		return got, nil //nolint:nilerr // an answer without an object
	}
	uid, at := object.UID, number(object.ResourceVersion)
	if uid == "" || object.DeletionTimestamp != nil && len(object.Finalizers) == 0 { // it is gone
		uid, at = cmp.Or(uid, object.Details.UID), gone
	}
	if uid != "" && at > h.listed {
		s.await(func() bool { return h.uids[uid] >= at })
	}
	if t.collection() == crdCollection {
		s.settleCRD(h, object.Name)
	}
	return got, nil
}

// settleCRD waits for the controllers of the API server: a new CRD is served, and a deleted CRD is gone.
func (s *server) settleCRD(h *history, name string) {
	var crd *unstructured.Unstructured
	s.await(func() bool {
		crd = h.current["/"+name]
		if crd == nil {
			return true
		}
		if crd.GetDeletionTimestamp() != nil {
			return !slices.Equal(crd.GetFinalizers(), []string{"customresourcecleanup.apiextensions.k8s.io"})
		}
		conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition := c.(map[string]any)
			return condition["type"] == "Established" && condition["status"] == "True"
		})
	})
	if crd == nil || crd.GetDeletionTimestamp() != nil {
		return
	}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version := v.(map[string]any)
		for version["served"] == true {
			found, err := s.admin.do("GET", "/apis/"+group+"/"+version["name"].(string), "application/json", "", nil)
			if err != nil || found.ok() && bytes.Contains(found.body, []byte(`"name":"`+plural+`"`)) {
				break
			}
			runtime.Gosched()
		}
	}
}

// reset forgets the changes of all resources.
func (s *server) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.resources {
		h.listed, h.changes, h.uids = h.last(), nil, map[types.UID]int64{}
	}
}

func number(version string) int64 {
	n, _ := strconv.ParseInt(version, 10, 64)
	return n
}
