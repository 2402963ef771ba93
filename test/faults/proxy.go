// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
)

// Request is a category of counted requests.
type Request struct {
	// Verb is one of Get, Watch, Create, Update, Patch, Delete, or the HTTP method of another request.
	Verb string
	// DryRun is true for a dry run.
	DryRun bool
}

// Proxy is a running proxy. It is safe for concurrent use.
type Proxy struct {
	address string
	forward *httputil.ReverseProxy
	closed  context.Context // ends with Close
	close   context.CancelFunc

	mutex    sync.Mutex
	server   *http.Server // nil while down
	serving  sync.WaitGroup
	faults   []*scripted
	requests map[Request]int
	observe  func(Observation)
	frozen   chan struct{} // closed by Thaw; nil while watches flow
	// frozenPaths are substrings of the paths whose watches are frozen; empty means
	// all.
	frozenPaths []string
	events      *scriptedEvents // nil if no event fails
	eventCount  map[string]int  // by the path of the watch
	watchFaults int
	open        map[*eventBody]bool
	expired     map[string]bool // watches that lost an event
}

// Start starts a proxy for the client with the given configuration. The proxy
// presents the client's bearer token or client certificate. It serves until Close.
func Start(config *rest.Config) (*Proxy, error) {
	p := newProxy()
	p.address = "127.0.0.1:0"
	var err error
	if p.forward, err = p.forwarder(config); err != nil {
		return nil, err
	}
	p.closed, p.close = context.WithCancel(context.Background())
	return p, p.Up()
}

// newProxy returns a proxy that does not serve.
func newProxy() *Proxy {
	return &Proxy{requests: map[Request]int{}, expired: map[string]bool{}, eventCount: map[string]int{}, open: map[*eventBody]bool{}}
}

// forwarder returns a handler that forwards requests unchanged to the API server.
func (p *Proxy) forwarder(config *rest.Config) (*httputil.ReverseProxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil || target.Host == "" {
		return nil, fmt.Errorf("reading the address of the API server %q: %w", config.Host, errors.Join(err, errors.New("must be a URL")))
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates for the API server %s: %w", config.Host, err)
	}
	var server http.RoundTripper = &http.Transport{TLSClientConfig: tlsConfig, DisableCompression: true, MaxIdleConnsPerHost: 100}
	if config.BearerToken != "" {
		server = transport.NewBearerAuthRoundTripper(config.BearerToken, server)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if verb(r.In) == Watch {
				r.Out.Header.Del("Accept-Encoding") // since Kubernetes 1.37, a streaming list can be compressed; faults are injected into events
			}
		},
		Transport:      server,
		FlushInterval:  -1, // forward each watch event immediately
		ErrorLog:       log.New(io.Discard, "", 0),
		ModifyResponse: p.modify,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { reset(w) },
	}, nil
}

// Config returns the configuration of a client of the proxy.
func (p *Proxy) Config() *rest.Config {
	return &rest.Config{Host: p.host()}
}

func (p *Proxy) host() string { return "http://" + p.address }

// Kubeconfig returns Config in the format of a kubeconfig file.
func (p *Proxy) Kubeconfig() ([]byte, error) {
	const name = "proxy"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: p.host()}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

// Fail adds a fault. The first fault that matches a request is injected. The
// returned function returns the number of injections.
func (p *Proxy) Fail(fault Fault) (happened func() int) {
	added := &scripted{Fault: fault, met: map[string]bool{}, renewed: map[string]bool{}}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.faults = append(p.faults, added)
	return func() int {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		return added.happened
	}
}

// Heal removes all faults. It does not end Down.
func (p *Proxy) Heal() {
	p.Thaw()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.faults, p.events = nil, nil
}

// Requests returns the number of requests since the start, by category. It includes
// requests with faults, but not those while the server is down.
func (p *Proxy) Requests() map[Request]int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return maps.Clone(p.requests)
}

// Writes returns the number of write requests, without dry runs.
func (p *Proxy) Writes() int {
	requests, sum := p.Requests(), 0
	for _, verb := range Writes {
		sum += requests[Request{Verb: verb}]
	}
	return sum
}

// Down cuts all connections and refuses new ones, as if the API server were gone.
func (p *Proxy) Down() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.server == nil {
		return nil
	}
	server := p.server
	p.server = nil
	return server.Close()
}

// Up ends Down. The address stays the same.
func (p *Proxy) Up() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.server != nil {
		return nil
	}
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("listening for the API server's client: %w", err)
	}
	p.address = listener.Addr().String()
	server := &http.Server{
		Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return p.closed },
	}
	p.server = server
	p.serving.Go(func() { _ = server.Serve(listener) }) // Close ends it
	return nil
}

// Close stops the proxy and all its connections, and waits until they have ended.
func (p *Proxy) Close() error {
	p.close()
	err := p.Down()
	p.serving.Wait()
	utilnet.CloseIdleConnectionsFor(p.forward.Transport)
	return err
}

// serve handles a request and injects its fault.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.serving.Add(1)
	defer p.serving.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if p.isExpired(r) {
		answer(w, Fault{Status: http.StatusGone})
		return
	}
	name, content := nameOf(r)
	identified := cmp.Or(name, content)
	fault := p.meet(r, identified)
	if observe := p.observer(); observe != nil {
		recorder := &statusRecorder{ResponseWriter: w}
		w = recorder
		began := time.Now()
		defer func() {
			observe(Observation{Time: began, Verb: verb(r), Path: r.URL.Path, Name: name, DryRun: r.URL.Query().Has("dryRun"), Status: recorder.status, Faulty: !fault.isZero()})
		}()
	}
	if fault.Do != nil {
		fault.Do()
	}
	if fault.Delay > 0 && !sleep(ctx, fault.Delay) {
		return
	}
	if fault.Cut > 0 {
		defer time.AfterFunc(fault.Cut, cancel).Stop()
	}
	switch {
	case fault.Reset:
		reset(w)
	case fault.Status > 0 && !fault.Late:
		answer(w, fault)
	default:
		p.forward.ServeHTTP(w, r.WithContext(context.WithValue(ctx, forwardedKey{}, forwarded{fault, identity(verb(r), r, identified)})))
	}
}

// meet counts a request (with the name or the content of a created object) and returns the fault to inject, or the zero value.
func (p *Proxy) meet(r *http.Request, name string) Fault {
	verb, dryRun := verb(r), r.URL.Query().Has("dryRun")
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.requests[Request{Verb: verb, DryRun: dryRun}]++
	for _, s := range p.faults {
		if s.matches(verb, r.URL.Path, dryRun) && s.happens(identity(verb, r, name)) {
			return s.Fault
		}
	}
	return Fault{}
}

// identity identifies an operation: retries have the same identity.
func identity(verb string, r *http.Request, name string) string {
	return fmt.Sprint(verb, " ", r.URL.Path, "/", name, " ", r.URL.Query().Has("dryRun"))
}

// nameOf returns the name of the object that a request creates, in JSON or protobuf; empty for other requests, for
// generated names, and for reviews of permissions. content identifies the object then.
func nameOf(r *http.Request) (name, content string) {
	if r.Method != http.MethodPost {
		return "", ""
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	object := &metav1.PartialObjectMetadata{}
	if encoded, isProtobuf := bytes.CutPrefix(body, []byte("k8s\x00")); isProtobuf {
		envelope := &runtime.Unknown{}
		if envelope.Unmarshal(encoded) == nil {
			_ = object.Unmarshal(envelope.Raw) // the metadata of every kind has the same field
		}
	} else {
		_ = json.Unmarshal(body, object)
	}
	return object.Name, fmt.Sprintf("%x", sha256.Sum256(body))
}

// failing is a reader that ends with an error; nil means io.EOF.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, cmp.Or(f.err, io.EOF) }

var verbs = map[string]string{
	http.MethodGet: Get, http.MethodPost: Create, http.MethodPut: Update,
	http.MethodPatch: Patch, http.MethodDelete: Delete,
}

func verb(r *http.Request) string {
	if r.Method == http.MethodGet && r.URL.Query().Has("watch") {
		return Watch
	}
	if verb, known := verbs[r.Method]; known {
		return verb
	}
	return r.Method
}

// isStored reports whether the API server stores the result of a write: of neither dry runs nor reviews of permissions.
func isStored(r *http.Request) bool {
	return !r.URL.Query().Has("dryRun") && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/")
}

// forwarded is the fault of a forwarded request, with the identity of the request; forwardedKey is its key in the context.
type (
	forwarded struct {
		Fault
		request string
	}
	forwardedKey struct{}
)

// succeeded tells the faults of the success of a request.
func (p *Proxy) succeeded(request string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, s := range p.faults {
		s.succeeded(request)
	}
}

var errLost = errors.New("the response is lost")

// modify injects the fault of a request into the response of the API server.
func (p *Proxy) modify(response *http.Response) error {
	fault, _ := response.Request.Context().Value(forwardedKey{}).(forwarded)
	if fault.isZero() && response.StatusCode < http.StatusMultipleChoices && isStored(response.Request) {
		p.succeeded(fault.request)
	}
	if fault.After != nil {
		fault.After()
	}
	if fault.Lose {
		return errLost
	}
	if fault.Late {
		return replace(response, fault.Fault)
	}
	if verb(response.Request) == Watch && response.StatusCode == http.StatusOK {
		events := newEventBody(p, response)
		response.Body = &gatedBody{ReadCloser: events, proxy: p, path: response.Request.URL.Path, ctx: response.Request.Context()}
	}
	return nil
}

// reset ends the connection of a request with a reset.
func reset(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the response has started: the server closes the connection
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // Close then sends a reset
	}
	_ = connection.Close()
}

// answer sends an error response as a failing API server does.
func answer(w http.ResponseWriter, fault Fault) {
	header, body := failure(fault)
	maps.Copy(w.Header(), header)
	w.WriteHeader(fault.Status)
	_, _ = w.Write(body)
}

// replace replaces a response of the API server.
func replace(response *http.Response, fault Fault) error {
	header, body := failure(fault)
	err := response.Body.Close()
	response.StatusCode, response.Status = fault.Status, http.StatusText(fault.Status)
	response.Header, response.Body, response.ContentLength = header, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return err
}

var reasons = map[int]metav1.StatusReason{
	http.StatusConflict: metav1.StatusReasonConflict, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusRequestEntityTooLarge: metav1.StatusReasonRequestEntityTooLarge,
	http.StatusGatewayTimeout: metav1.StatusReasonTimeout, http.StatusGone: metav1.StatusReasonExpired,
}

// failure returns the header and the body, a Status object, of an error response.
func failure(fault Fault) (http.Header, []byte) {
	header := http.Header{"Content-Type": {"application/json"}}
	if fault.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(fault.RetryAfter.Seconds())))
	}
	body, _ := json.Marshal(metav1.Status{ // marshalling strings and numbers cannot fail
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(fault.Status), Reason: reasons[fault.Status], Message: cmp.Or(fault.Message, "injected fault"),
	})
	return header, body
}

// sleep waits and reports whether it waited for the whole duration.
func sleep(ctx context.Context, duration time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(duration):
		return true
	}
}
