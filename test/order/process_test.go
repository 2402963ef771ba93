// SPDX-License-Identifier: Apache-2.0

package order

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install"
)

// process is a run of the program: a manager with all controllers, whose requests and watch events are steps.
type process struct {
	world    *world
	life     context.Context // of its requests
	kill     context.CancelFunc
	done     chan error
	streams  []*stream
	readings map[string]*reading // by actor
	stale    int64               // resource version of the lists at the start; 0 is the newest
}

// start starts a process. late is the time until a write of a former leader can arrive.
func (w *world) start(late time.Time, stale int64) error {
	p := &process{world: w, done: make(chan error, 1), stale: stale, readings: map[string]*reading{}}
	p.life, p.kill = context.WithCancel(context.Background())
	scheme, err := install.Scheme()
	if err != nil {
		return err
	}
	to := &rest.Config{Host: "http://apiserver", Transport: p, QPS: -1}
	to.ContentType, to.AcceptContentTypes = "application/json", "application/json"
	mgr, err := ctrl.NewManager(to, ctrl.Options{
		Scheme: scheme, Cache: install.CacheOptions(v1alpha1.OpenShiftNamespaces), Logger: logr.New(w.sink()),
		HealthProbeBindAddress: "0", Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return err
	}
	err = install.AddToManager(mgr, install.Options{
		ImagesJSON: w.images, Release: "4.22.0", Platforms: []string{"AWS"}, Fetcher: w.releases, Namespaces: v1alpha1.OpenShiftNamespaces,
		IgnoreOfficialAPI: true, LateWrites: func() time.Time { return late },
	})
	if err != nil {
		return err
	}
	go func() { p.done <- mgr.Start(p.life) }()
	w.process = p
	for range 20 { // informers list before the next step: a start waits in polls with jitter
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	p.stale = 0
	return nil
}

// end ends the process: all of its requests fail.
func (p *process) end() error {
	p.kill()
	for _, s := range p.streams {
		_ = s.Close()
	}
	return <-p.done
}

// sink is a log that learns the name of the controller of a request.
type sink struct {
	logr.LogSink
	actor string
}

func (w *world) sink() *sink {
	return &sink{funcr.New(func(_, line string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.logs = append(w.logs, fmt.Sprint(len(w.trace), " ", line))
	}, funcr.Options{Verbosity: 4}).GetSink(), "other"}
}

func (s *sink) WithName(string) logr.LogSink { return s }
func (s *sink) WithValues(values ...any) logr.LogSink {
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == "controller" {
			return &sink{s.LogSink.WithName(values[i+1].(string)), values[i+1].(string)}
		}
	}
	return s
}

// actorOf returns the controller that sends a request.
func actorOf(ctx context.Context) string {
	if logger, err := logr.FromContext(ctx); err == nil {
		if s, ok := logger.GetSink().(*sink); ok {
			return s.actor
		}
	}
	return "other"
}

// request is a request that waits for the scheduler.
type request struct {
	process              *process
	actor                string
	url                  *url.URL
	method, kind, accept string // kind is the content type
	body                 []byte
	target               target
	dry, announced       bool
	due                  int         // step at which the write of a former leader arrives
	answer               chan answer // buffered
}

// writes reports whether the request changes an object.
func (r *request) writes() bool { return r.method != http.MethodGet && !r.dry }

// named returns the name of the object, also of one that is created.
func (r *request) named() string {
	sent := &unstructured.Unstructured{}
	_ = json.Unmarshal(r.body, &sent.Object)
	return cmp.Or(r.target.name, sent.GetName())
}

func (r *request) String() string {
	verb := r.method
	if r.dry {
		verb += " (dry run)"
	}
	return fmt.Sprintf("%s: %s %s", r.actor, verb, r.url.Path)
}

// RoundTrip implements http.RoundTripper.
func (p *process) RoundTrip(in *http.Request) (*http.Response, error) {
	var body []byte
	if in.Body != nil {
		body, _ = io.ReadAll(in.Body)
		_ = in.Body.Close()
	}
	if p.life.Err() != nil {
		return nil, p.life.Err()
	}
	t, ok := parse(in.URL.Path)
	switch query := in.URL.Query(); {
	case query.Has("hash"): // OpenAPI
		return respond(p.world.server.schema(in.URL.RequestURI()))
	case !ok || strings.HasSuffix(t.resource, "reviews"): // discovery
		return respond(p.world.server.installer.do(in.Method, in.URL.RequestURI(), in.Header.Get("Content-Type"), body))
	case t.resource == "events":
		p.world.mu.Lock()
		p.world.check.event(body)
		p.world.mu.Unlock()
		return respond(answer{http.StatusCreated, body}, nil)
	case query.Has("watch"):
		return p.watch(in, t)
	case in.Method == http.MethodGet && query.Get("resourceVersion") != "" && t.name == "": // the list of an informer
		at := int64(0)
		if query.Get("resourceVersion") == "0" {
			at = p.stale
		}
		return respond(p.world.server.read(in.URL, in.Header.Get("Accept"), t, at))
	}
	r := &request{process: p, actor: actorOf(in.Context()), method: in.Method, url: in.URL, kind: in.Header.Get("Content-Type"), accept: in.Header.Get("Accept"), body: body, target: t, dry: in.URL.Query().Has("dryRun"), answer: make(chan answer, 1)}
	p.world.mu.Lock()
	p.world.requests = append(p.world.requests, r)
	p.world.mu.Unlock()
	select {
	case got := <-r.answer:
		return respond(got, nil)
	case <-p.life.Done():
		return nil, p.life.Err()
	case <-in.Context().Done():
		p.world.leave(r)
		return nil, in.Context().Err()
	}
}

// schema returns a document of OpenAPI, which never changes.
func (s *server) schema(uri string) (answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, found := s.schemas[uri]; found {
		return known, nil
	}
	got, err := s.installer.do("GET", uri, "", nil)
	s.schemas[uri] = got
	return got, err
}

// send sends the request to the API server. A permission and a policy are in force after a time that no step measures: a rejected request to an
// instance, and the probe of a policy, are sent again.
func (r *request) send(s *server) (got answer, err error) {
	if r.method == http.MethodGet && r.target.resource != "machines" { // those are converted
		return s.read(r.url, r.accept, r.target, 0)
	}
	policy, _ := parse(guardPolicy)
	for range 1000 {
		got, err = s.write(s.installer, r.method, r.url.RequestURI(), r.kind, r.body)
		rejected := r.target.resource == "machines" && got.code == http.StatusForbidden
		unprotected := r.dry && r.method == http.MethodPost && r.target.resource == "configmaps" && got.ok() && s.get(policy) != nil
		if err != nil || !rejected && !unprotected {
			break
		}
	}
	return got, err
}

func respond(got answer, err error) (*http.Response, error) {
	response := httptest.NewRecorder()
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(cmp.Or(got.code, http.StatusBadGateway))
	_, _ = response.Body.Write(got.body)
	return response.Result(), err
}

// selector returns a function that selects the objects of a list or a watch.
func selector(query url.Values, t target) (func(*unstructured.Unstructured) bool, error) {
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	return func(o *unstructured.Unstructured) bool {
		if o == nil || t.namespace != "" && o.GetNamespace() != t.namespace {
			return false
		}
		return byLabel.Matches(labels.Set(o.GetLabels())) && byField.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()})
	}, err
}

// view returns an object as the client wants it.
func view(o *unstructured.Unstructured, accept string) map[string]any {
	if !strings.Contains(accept, "PartialObjectMetadata") {
		return o.Object
	}
	return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o.Object["metadata"]}
}

// read answers a read from the hub, at a resource version; 0 is the newest.
func (s *server) read(in *url.URL, accept string, t target, at int64) (answer, error) {
	if t.name != "" {
		found := s.get(t)
		if found == nil {
			return status(http.StatusNotFound, "NotFound", in.Path+" does not exist"), nil
		}
		body, err := json.Marshal(view(found, accept))
		return answer{http.StatusOK, body}, err
	}
	selects, err := selector(in.Query(), t)
	if err != nil {
		return answer{}, err
	}
	h, items := s.observe(t.collection()), []any{}
	objects, version := s.all(t.collection(), at)
	for _, object := range objects {
		if selects(object) {
			items = append(items, view(object, accept))
		}
	}
	kind, api := h.kind+"List", h.version
	if strings.Contains(accept, "PartialObjectMetadata") {
		kind, api = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	body, err := json.Marshal(map[string]any{"kind": kind, "apiVersion": api, "metadata": map[string]any{"resourceVersion": fmt.Sprint(version)}, "items": items})
	return answer{http.StatusOK, body}, err
}

// status returns an answer that rejects a request.
func status(code int, reason, message string) answer {
	body, _ := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code})
	return answer{code, body}
}

// stream is a watch of an informer. The scheduler delivers its events.
type stream struct {
	io.Reader
	events  *io.PipeWriter
	ended   bool
	server  *server
	name    string
	history *history
	next    int // index of the next change
	accept  string
	selects func(*unstructured.Unstructured) bool
	forgets bool // the next event is lost
	lost    bool // an event was lost: the informer lists again when nothing else happens
}

func (p *process) watch(in *http.Request, t target) (*http.Response, error) {
	selects, err := selector(in.URL.Query(), t)
	if err != nil {
		return nil, err
	}
	body, events := io.Pipe()
	s := &stream{Reader: body, events: events, server: p.world.server, name: strings.TrimSuffix("watch "+t.resource+" in "+t.namespace, " in "), history: p.world.server.observe(t.collection()), accept: in.Header.Get("Accept"), selects: selects}
	from := number(in.URL.Query().Get("resourceVersion"))
	p.world.server.mu.Lock()
	for s.next < len(s.history.changes) && s.history.changes[s.next].at <= from {
		s.next++
	}
	p.world.server.mu.Unlock()
	p.world.mu.Lock()
	p.streams = append(p.streams, s)
	p.world.mu.Unlock()
	response, err := respond(answer{code: http.StatusOK}, nil)
	response.Body, response.ContentLength = s, -1
	return response, err
}

// Close ends the watch.
func (s *stream) Close() error {
	s.ended = true
	return s.events.Close()
}

// pending returns the next event of the stream, without the events of objects that it does not select; nil if there is none.
func (s *stream) pending() (kind string, c *change) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	for ; s.next < len(s.history.changes); s.next++ {
		c := &s.history.changes[s.next]
		was, is := s.selects(c.before), !c.deleted && s.selects(c.object)
		switch {
		case !was && is:
			return "ADDED", c
		case was && is:
			return "MODIFIED", c
		case was:
			return "DELETED", c
		}
	}
	return "", nil
}

// deliver delivers the next event.
func (s *stream) deliver() error {
	kind, c := s.pending()
	if s.next++; s.forgets {
		s.forgets, s.lost = false, true
		return nil
	}
	return s.send(kind, view(c.object, s.accept))
}

// expire ends the watch so that the informer lists again.
func (s *stream) expire() error {
	defer s.Close()
	return s.send("ERROR", json.RawMessage(status(http.StatusGone, "Expired", "too old").body))
}

func (s *stream) send(kind string, object any) error {
	return json.NewEncoder(s.events).Encode(map[string]any{"type": kind, "object": object})
}
