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
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
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
	world   *world
	name    string
	dead    bool          // its requests fail
	end     chan struct{} // closed at the death
	cancel  context.CancelFunc
	done    chan error
	streams []*stream
	stale   int64 // resource version of the lists at the start; 0 is the newest
}

var errDead = errors.New("the process has ended")

// start starts a process. late is the time until a write of a former leader can arrive.
func (w *world) start(late time.Time, stale int64) error {
	w.processes++
	p := &process{world: w, name: fmt.Sprint("p", w.processes), end: make(chan struct{}), done: make(chan error, 1), stale: stale}
	scheme, err := install.Scheme()
	if err != nil {
		return err
	}
	to := &rest.Config{Host: "http://apiserver", Transport: p, QPS: -1}
	to.ContentType, to.AcceptContentTypes = "application/json", "application/json"
	mgr, err := ctrl.NewManager(to, ctrl.Options{
		Scheme: scheme, Cache: install.CacheOptions(v1alpha1.OpenShiftNamespaces), Logger: logr.New(&sink{w: w}),
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
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	go func() { p.done <- mgr.Start(ctx) }()
	w.process = p
	for range 20 { // informers list before the next step: a start waits in polls with jitter
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	p.stale = 0
	return nil
}

// kill ends the process: all of its requests fail.
func (p *process) kill() error {
	p.world.mu.Lock()
	p.dead = true
	streams := slices.Clone(p.streams)
	p.world.mu.Unlock()
	close(p.end)
	p.cancel()
	for _, s := range streams {
		s.close()
	}
	return <-p.done
}

// sink is a log that learns the name of the controller of a request.
type sink struct {
	w     *world
	actor string
}

func (s *sink) Init(logr.RuntimeInfo)  {}
func (s *sink) Enabled(level int) bool { return level < 5 }
func (s *sink) Info(_ int, message string, values ...any) {
	s.w.logged(s.actor, message, nil, values)
}
func (s *sink) Error(err error, message string, values ...any) {
	s.w.logged(s.actor, message, err, values)
}
func (s *sink) WithName(string) logr.LogSink { return s }
func (s *sink) WithValues(values ...any) logr.LogSink {
	for i := 0; i+1 < len(values); i += 2 {
		if values[i] == "controller" {
			return &sink{s.w, fmt.Sprint(values[i+1])}
		}
	}
	return s
}

// actorOf returns the controller that sends a request.
func actorOf(ctx context.Context) string {
	if logger, err := logr.FromContext(ctx); err == nil {
		if s, ok := logger.GetSink().(*sink); ok && s.actor != "" {
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
	answer               chan result // buffered
}

type result struct {
	answer
	err error
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
	if p.dead {
		return nil, errDead
	}
	t, ok := parse(in.URL.Path)
	switch query := in.URL.Query(); {
	case query.Has("hash"): // OpenAPI
		got, err := p.world.server.schema(in.URL.RequestURI())
		return respond(in, result{got, err})
	case !ok || strings.HasSuffix(t.resource, "reviews"): // discovery
		got, err := p.world.server.installer.do(in.Method, in.URL.RequestURI(), "application/json", in.Header.Get("Content-Type"), body)
		return respond(in, result{got, err})
	case t.resource == "events":
		p.world.event(body)
		return respond(in, result{answer: answer{http.StatusCreated, body}})
	case query.Has("watch"):
		return p.watch(in, t)
	case in.Method == http.MethodGet && query.Get("resourceVersion") != "" && t.name == "": // the list of an informer
		at := int64(0)
		if query.Get("resourceVersion") == "0" {
			at = p.stale
		}
		got, err := p.world.server.read(in.URL, in.Header.Get("Accept"), t, at)
		return respond(in, result{got, err})
	}
	r := &request{process: p, actor: actorOf(in.Context()), method: in.Method, url: in.URL, kind: in.Header.Get("Content-Type"), accept: in.Header.Get("Accept"), body: body, target: t, dry: in.URL.Query().Has("dryRun"), answer: make(chan result, 1)}
	p.world.arrive(r)
	select {
	case got := <-r.answer:
		return respond(in, got)
	case <-p.end:
		return nil, errDead
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
	got, err := s.installer.do("GET", uri, "application/json", "", nil)
	s.schemas[uri] = got
	return got, err
}

// send sends the request to the API server. A permission is in force after a time that no step measures, so a rejected request to an instance is
// sent again.
func (r *request) send(s *server) (got result) {
	for range 100 {
		if got = r.sendOnce(s); got.code != http.StatusForbidden || r.target.resource != "machines" {
			return got
		}
	}
	return got
}

func (r *request) sendOnce(s *server) result {
	switch {
	case r.method == http.MethodGet && r.target.resource == "machines": // converted
		got, err := s.installer.do(r.method, r.url.RequestURI(), "application/json", "", nil)
		return result{got, err}
	case r.method == http.MethodGet:
		got, err := s.read(r.url, r.accept, r.target, 0)
		return result{got, err}
	}
	got, err := s.write(s.installer, r.method, r.url.RequestURI(), r.kind, r.body)
	// A policy is in force after a time that no step measures: the probe of the installer waits for it.
	for r.dry && r.method == http.MethodPost && r.target.resource == "configmaps" && err == nil && got.ok() && s.get(policies, "", guardPolicy) != nil {
		got, err = s.write(s.installer, r.method, r.url.RequestURI(), r.kind, r.body)
	}
	return result{got, err}
}

func respond(in *http.Request, got result) (*http.Response, error) {
	if got.err != nil {
		return nil, got.err
	}
	return &http.Response{
		StatusCode: got.code, Status: http.StatusText(got.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: in,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(got.body)), ContentLength: int64(len(got.body)),
	}, nil
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
	h := s.observe(t.collection())
	selects, err := selector(in.Query(), t)
	if err != nil {
		return answer{}, err
	}
	objects, version := s.list(h, at)
	if t.name != "" {
		object := objects[t.namespace+"/"+t.name]
		if object == nil {
			return status(http.StatusNotFound, "NotFound", t.key()+" does not exist"), nil
		}
		body, err := json.Marshal(view(object, accept))
		return answer{http.StatusOK, body}, err
	}
	items := []any{}
	for _, object := range sorted(objects) {
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
	name    string
	history *history
	next    int // index of the next change
	accept  string
	selects func(*unstructured.Unstructured) bool
	world   *world
	lines   chan []byte
	rest    []byte // of a line
	end     context.Context
	close   context.CancelFunc
	forgets bool // the next event is lost
	lost    bool // an event was lost: the informer lists again when nothing else happens
}

func (p *process) watch(in *http.Request, t target) (*http.Response, error) {
	w := p.world
	h := w.server.observe(t.collection())
	selects, err := selector(in.URL.Query(), t)
	if err != nil {
		return nil, err
	}
	s := &stream{name: "watch " + t.resource, history: h, accept: in.Header.Get("Accept"), selects: selects, world: w, lines: make(chan []byte, 1)}
	s.end, s.close = context.WithCancel(context.Background())
	if t.namespace != "" {
		s.name += " in " + t.namespace
	}
	from := number(in.URL.Query().Get("resourceVersion"))
	w.server.mu.Lock()
	s.next = slices.IndexFunc(h.changes, func(c change) bool { return c.at > from })
	if s.next < 0 {
		s.next = len(h.changes)
	}
	w.server.mu.Unlock()
	w.mu.Lock()
	if p.streams = append(p.streams, s); p.dead {
		s.close()
	}
	w.mu.Unlock()
	return &http.Response{StatusCode: http.StatusOK, Status: "OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: in,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: s, ContentLength: -1}, nil
}

// pending returns the next event of the stream, without the events of objects that it does not select; nil if there is none.
func (s *stream) pending() (kind string, c *change) {
	s.world.server.mu.Lock()
	defer s.world.server.mu.Unlock()
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
	s.next++
	if s.forgets {
		s.forgets, s.lost = false, true
		return nil
	}
	line, err := json.Marshal(map[string]any{"type": kind, "object": view(c.object, s.accept)})
	s.lines <- append(line, '\n')
	return err
}

// expire ends the watch so that the informer lists again.
func (s *stream) expire() {
	s.lines <- append([]byte(`{"type":"ERROR","object":`), append(status(http.StatusGone, "Expired", "too old").body, "}\n"...)...)
	synctest.Wait()
	s.close()
}

// Read implements io.Reader.
func (s *stream) Read(b []byte) (n int, err error) {
	if len(s.rest) == 0 {
		select {
		case s.rest = <-s.lines:
		case <-s.end.Done():
			return 0, io.EOF
		}
	}
	n = copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (s *stream) Close() error { s.close(); return nil }
