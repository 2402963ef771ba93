// SPDX-License-Identifier: Apache-2.0

package order

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
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
	readings map[string]reading // by actor
	stale    int                // number of changes that the lists at the start do not have
}

// start starts a process. late is the time until a write of a former leader can arrive.
func (w *world) start(late time.Time, stale int) error {
	p := &process{world: w, done: make(chan error, 1), stale: stale, readings: map[string]reading{}}
	p.life, p.kill = context.WithCancel(context.Background())
	scheme, err := install.Scheme()
	if err != nil {
		return err
	}
	to := &rest.Config{Host: "http://apiserver", Transport: p, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
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
	if i := slices.Index(values, any("controller")); i >= 0 {
		return &sink{s.LogSink.WithName(values[i+1].(string)), values[i+1].(string)}
	}
	return s
}

// actorOf returns the controller that sends a request.
func actorOf(ctx context.Context) string {
	if s, ok := logr.FromContextOrDiscard(ctx).GetSink().(*sink); ok {
		return s.actor
	}
	return "other"
}

// request is a request that waits for the scheduler.
type request struct {
	*http.Request
	body      []byte
	sent      *unstructured.Unstructured // empty if the body is no object
	target    *apirequest.RequestInfo
	process   *process
	actor     string
	dry       bool
	announced bool
	due       int         // step at which the write of a former leader arrives, if nothing happens before
	answer    chan answer // with a buffer: a former leader does not read its answer
}

// writes reports whether the request changes an object.
func (r *request) writes() bool { return r.Method != http.MethodGet && !r.dry }

// applies reports whether the request is an apply.
func (r *request) applies() bool { return r.Header.Get("Content-Type") == applyPatch }

func (r *request) String() string {
	verb := r.Method
	if r.dry {
		verb += " (dry run)"
	}
	if r.due > 0 {
		verb += " (of a former leader)"
	}
	return fmt.Sprintf("%s: %s %s", r.actor, verb, r.URL.Path)
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
	t, err := paths.NewRequestInfo(in)
	if err != nil {
		return nil, err
	}
	in.Header.Set("Accept", strings.ReplaceAll(in.Header.Get("Accept"), "vnd.kubernetes.protobuf", "json"))
	s, query := p.world.server, in.URL.Query()
	switch {
	case t.Resource == "events":
		p.world.mu.Lock()
		p.world.check.event(body)
		p.world.mu.Unlock()
		return respond(answer{http.StatusCreated, body}, nil)
	case t.Verb == "watch":
		return p.watch(in, t)
	case t.Verb == "list" && query.Get("resourceVersion") != "": // the list of an informer
		at := s.version(0)
		if query.Get("resourceVersion") == "0" {
			at = s.version(p.stale)
		}
		query.Set("resourceVersion", fmt.Sprint(at))
		query.Set("resourceVersionMatch", "Exact")
		return respond(s.send(s.installer, in.Method, in.URL.Path+"?"+query.Encode(), in.Header, nil))
	case !t.IsResourceRequest || strings.HasSuffix(t.Resource, "reviews"): // discovery, OpenAPI and permissions
		return respond(s.send(s.installer, in.Method, in.URL.RequestURI(), in.Header, body))
	}
	r := &request{Request: in, body: body, target: t, process: p, actor: actorOf(in.Context()), dry: query.Has("dryRun"), answer: make(chan answer, 2)}
	r.sent = &unstructured.Unstructured{}
	if json.Unmarshal(body, &r.sent.Object) == nil && t.Verb == "create" {
		t.Name = r.sent.GetName()
	}
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

func respond(got answer, err error) (*http.Response, error) {
	return &http.Response{StatusCode: got.code, Header: as("application/json"), Body: io.NopCloser(bytes.NewReader(got.body))}, err
}

// status returns an answer that rejects a request.
func status(code int, reason, message string) answer {
	body, _ := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code})
	return answer{code, body}
}

// stream is a watch of an informer. The scheduler delivers its events.
type stream struct {
	io.Reader
	events       *io.PipeWriter
	ended        bool
	server       *server
	name         string
	prefix       string // of the keys of its objects
	selects      func(*unstructured.Unstructured) bool
	metadataOnly bool
	from         int64 // revision
	next         int   // index of the next change
	forgets      bool  // the next event is lost
	lost         bool  // an event was lost: the informer lists again when nothing else happens
}

func (p *process) watch(in *http.Request, t *apirequest.RequestInfo) (*http.Response, error) {
	byLabel, err := labels.Parse(t.LabelSelector)
	byField, invalid := fields.ParseSelector(t.FieldSelector)
	if err = cmp.Or(err, invalid); err != nil {
		return nil, err
	}
	body, events := io.Pipe()
	s := &stream{Reader: body, events: events, server: p.world.server, prefix: path.Join(t.Resource, t.Namespace) + "/"}
	s.name = strings.TrimSuffix("watch "+t.Resource+" in "+t.Namespace, " in ")
	s.selects = func(o *unstructured.Unstructured) bool {
		return o != nil && byLabel.Matches(labels.Set(o.GetLabels())) && byField.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()})
	}
	s.metadataOnly = strings.Contains(in.Header.Get("Accept"), "PartialObjectMetadata")
	s.from, err = strconv.ParseInt(in.URL.Query().Get("resourceVersion"), 10, 64)
	p.world.mu.Lock()
	p.streams = append(p.streams, s)
	p.world.mu.Unlock()
	return &http.Response{StatusCode: http.StatusOK, Header: as("application/json"), Body: s}, err
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
	for ; s.next < len(s.server.changes); s.next++ {
		c := &s.server.changes[s.next]
		ours := c.revision > s.from && strings.HasPrefix(c.key, s.prefix)
		was, is := ours && s.selects(c.before), ours && !c.deleted && s.selects(c.object)
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
	if s.metadataOnly {
		return s.send(kind, map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": c.object.Object["metadata"]})
	}
	return s.send(kind, c.object.Object)
}

// expire ends the watch so that the informer lists again.
func (s *stream) expire() error {
	defer s.Close()
	return s.send("ERROR", json.RawMessage(status(http.StatusGone, "Expired", "too old").body))
}

func (s *stream) send(kind string, object any) error {
	return json.NewEncoder(s.events).Encode(map[string]any{"type": kind, "object": object})
}
