// SPDX-License-Identifier: Apache-2.0

// Package registry is a container registry for tests and the demo: the real protocol on a free port of the loopback
// interface, stored in memory, with request counters and fault injection.
//
//	reg, err := registry.Start(registry.Options{})
//	defer reg.Close()
//	image, err := registry.Image(registry.Layer{Txtar: "-- capi-manifests/metadata.json --\n{}\n"})
//	reference, err := reg.Push("providers/aws", image) // 127.0.0.1:40123/providers/aws@sha256:…
package registry

import (
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Options are the options of a Registry. The zero value is an open registry on 127.0.0.1.
type Options struct {
	// Address is the address to listen on; "" means 127.0.0.1:0. Other loopback addresses are other hosts.
	Address string
	// Username and Password are required (HTTP basic authentication) if Username is not empty. Push uses them.
	Username, Password string
	// CA, if set, signs the certificate of the registry; nil serves plain HTTP.
	CA *CA
	// Handler is the registry itself; nil means go-containerregistry's, stored in memory.
	Handler http.Handler
	// Log receives one line per request; nil discards them.
	Log io.Writer
}

// Key is the key of the request counters.
type Key struct {
	// Method is the HTTP method.
	Method string
	// Kind is manifests, blobs, uploads, tags, ping or other.
	Kind string
}

// Registry is a running registry.
type Registry struct {
	options  Options
	listener net.Listener
	server   *http.Server
	handler  http.Handler
	stopped  chan struct{}

	mu       sync.Mutex
	requests map[Key]int
	paths    map[string]int
	faults   []*Fault
}

// Start starts a registry. It serves until Close.
func Start(options Options) (*Registry, error) {
	if options.Address == "" {
		options.Address = "127.0.0.1:0"
	}
	if options.Log == nil {
		options.Log = io.Discard
	}
	listener, err := net.Listen("tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("starting a registry: %w", err)
	}
	r := &Registry{
		options:  options,
		listener: listener,
		handler:  options.Handler,
		stopped:  make(chan struct{}),
	}
	if r.handler == nil {
		r.handler = ggcr.New(ggcr.Logger(log.New(options.Log, "registry ", log.LstdFlags)))
	}
	r.server = &http.Server{Handler: http.HandlerFunc(r.serve), ErrorLog: log.New(io.Discard, "", 0)}
	r.Reset()
	serve := listener
	if options.CA != nil {
		host, _, _ := net.SplitHostPort(listener.Addr().String())
		config, err := options.CA.serve(host, "localhost")
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		serve = tls.NewListener(listener, config)
	}
	go func() {
		defer close(r.stopped)
		_ = r.server.Serve(serve) // the error after Close
	}()
	return r, nil
}

// New starts a registry for the duration of a test.
func New(t testing.TB, options Options) *Registry {
	t.Helper()
	r, err := Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Close stops the registry and closes its connections.
func (r *Registry) Close() error {
	err := r.server.Close()
	<-r.stopped
	return err
}

// Host returns the registry's host and port, as in references.
func (r *Registry) Host() string { return r.listener.Addr().String() }

// Requests returns the number of requests by key since the last Reset, including pushes.
func (r *Registry) Requests() map[Key]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.requests)
}

// Paths returns the number of GET requests by path since the last Reset.
func (r *Registry) Paths() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.paths)
}

// Reset sets all counters to zero.
func (r *Registry) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests, r.paths = map[Key]int{}, map[string]int{}
}

// Push pushes an image or an index to a repository and returns its reference by digest. Faults do not affect the
// requests of a push.
func (r *Registry) Push(repository string, image remote.Taggable) (string, error) {
	digest, err := digestOf(image)
	if err != nil {
		return "", fmt.Errorf("pushing to %s: %w", repository, err)
	}
	reference := r.Host() + "/" + repository + "@" + digest.String()
	ref, err := name.NewDigest(reference, name.Insecure) // it speaks TLS first
	if err != nil {
		return "", fmt.Errorf("pushing to %s: %w", repository, err)
	}
	if err := r.push(ref, image); err != nil {
		return "", fmt.Errorf("pushing to %s: %w", reference, err)
	}
	return reference, nil
}

// PushTag also tags the image or index, for example as "v1".
func (r *Registry) PushTag(repository, tag string, image remote.Taggable) (string, error) {
	ref, err := name.NewTag(r.Host()+"/"+repository+":"+tag, name.Insecure) // it speaks TLS first
	if err != nil {
		return "", fmt.Errorf("pushing to %s: %w", repository, err)
	}
	if err := r.push(ref, image); err != nil {
		return "", fmt.Errorf("pushing to %s: %w", ref, err)
	}
	return r.Push(repository, image)
}

func (r *Registry) push(ref name.Reference, image remote.Taggable) error {
	transport := &http.Transport{}
	if r.options.CA != nil {
		pool := x509.NewCertPool()
		pool.AddCert(r.options.CA.authority.Certificate)
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	defer transport.CloseIdleConnections()
	options := []remote.Option{
		remote.WithTransport(pushing{transport}),
		remote.WithAuth(&authn.Basic{Username: r.options.Username, Password: r.options.Password}),
	}
	switch image := image.(type) {
	case v1.Image:
		return remote.Write(ref, image, options...)
	case v1.ImageIndex:
		return remote.WriteIndex(ref, image, options...)
	}
	return remote.Put(ref, image, options...)
}

// MustPush is Push for tests.
func (r *Registry) MustPush(t testing.TB, repository string, image remote.Taggable) string {
	t.Helper()
	reference, err := r.Push(repository, image)
	if err != nil {
		t.Fatal(err)
	}
	return reference
}

func digestOf(image remote.Taggable) (v1.Hash, error) {
	if image, ok := image.(interface{ Digest() (v1.Hash, error) }); ok {
		return image.Digest()
	}
	raw, err := image.RawManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	digest, _, err := v1.SHA256(strings.NewReader(string(raw)))
	return digest, err
}

// pushHeader marks the requests of Push.
const pushHeader = "X-Test-Push"

type pushing struct{ next http.RoundTripper }

func (p pushing) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set(pushHeader, "true")
	return p.next.RoundTrip(req)
}

func (r *Registry) serve(w http.ResponseWriter, req *http.Request) {
	fault := r.count(req)
	if r.options.Username != "" && !r.authorized(req) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		refuse(w, http.StatusUnauthorized, "UNAUTHORIZED")
		return
	}
	if fault == nil {
		r.handler.ServeHTTP(w, req)
		return
	}
	fault.serve(w, req, r.handler)
}

// count counts a request and returns its fault.
func (r *Registry) count(req *http.Request) *Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[Key{req.Method, kindOf(req.URL.Path)}]++
	if req.Method == http.MethodGet {
		r.paths[req.URL.Path]++
	}
	if req.Header.Get(pushHeader) != "" {
		return nil
	}
	for _, f := range r.faults {
		if f.meets(req) {
			return f
		}
	}
	return nil
}

func (r *Registry) authorized(req *http.Request) bool {
	username, password, _ := req.BasicAuth()
	return subtle.ConstantTimeCompare([]byte(username+"\x00"+password), []byte(r.options.Username+"\x00"+r.options.Password)) == 1
}

// kindOf returns the kind of a path of the protocol.
func kindOf(p string) string {
	switch {
	case p == "/v2/" || p == "/v2":
		return "ping"
	case strings.Contains(p, "/blobs/uploads"):
		return "uploads"
	}
	for _, kind := range []string{"manifests", "blobs", "tags"} {
		if strings.Contains(p, "/"+kind+"/") {
			return kind
		}
	}
	return "other"
}

// Fault changes or replaces the responses to requests. Effects can be combined; Status replaces the response.
type Fault struct {
	// Path is a pattern as for path.Match for the whole path, such as "/v2/*/blobs/*", or a substring of it if it has
	// no "*"; "" matches every path.
	Path string
	// Method is the method; "" matches every method.
	Method string
	// Times is the number of affected requests; 0 means all.
	Times int

	// Status replaces the response of the registry. The body is Body if set, or else an error of the protocol.
	Status int
	// Header is added to the response, such as Retry-After or Location.
	Header http.Header
	// Body replaces the body of a successful response; its other headers remain.
	Body []byte
	// CutAfter, if above 0, closes the connection after this number of bytes of the body.
	CutAfter int
	// Delay is the time to wait before the first byte of the response.
	Delay time.Duration
	// Pause is the time to wait after each Chunk of the body (1 KiB if Chunk is 0).
	Pause time.Duration
	Chunk int
	// NoRange makes the registry ignore Range headers.
	NoRange bool
	// Serve, if set, replaces all other effects. next is the registry, without faults.
	Serve func(w http.ResponseWriter, req *http.Request, next http.Handler)

	met int
}

// Fail adds a fault. The first matching fault with Times left affects a request.
func (r *Registry) Fail(fault Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, &fault)
}

// Heal removes all faults.
func (r *Registry) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = nil
}

// meets reports whether the fault affects a request, and counts it.
func (f *Fault) meets(req *http.Request) bool {
	if f.Times > 0 && f.met >= f.Times || f.Method != "" && f.Method != req.Method || !matches(f.Path, req.URL.Path) {
		return false
	}
	f.met++
	return true
}

func matches(pattern, p string) bool {
	if strings.Contains(pattern, "*") {
		ok, err := path.Match(pattern, p)
		return ok && err == nil
	}
	return strings.Contains(p, pattern)
}

func (f *Fault) serve(w http.ResponseWriter, req *http.Request, handler http.Handler) {
	if f.Serve != nil {
		f.Serve(w, req, handler)
		return
	}
	if f.NoRange {
		req.Header.Del("Range")
	}
	if !sleep(req.Context(), f.Delay) {
		return
	}
	for key, values := range f.Header {
		w.Header()[key] = values
	}
	if f.Status != 0 && f.Body == nil {
		refuse(w, f.Status, reasons[f.Status])
		return
	}
	answer := &recorder{header: http.Header{}, status: cmp.Or(f.Status, http.StatusOK), body: f.Body}
	if f.Status == 0 {
		handler.ServeHTTP(answer, req)
	}
	if f.Body != nil && answer.status == http.StatusOK {
		answer.body = f.Body
	}
	f.send(req.Context(), w, answer)
}

// reasons are the error codes of the protocol for statuses.
var reasons = map[int]string{
	http.StatusUnauthorized:    "UNAUTHORIZED",
	http.StatusForbidden:       "DENIED",
	http.StatusNotFound:        "MANIFEST_UNKNOWN",
	http.StatusTooManyRequests: "TOOMANYREQUESTS",
}

// refuse sends an error of the protocol.
func refuse(w http.ResponseWriter, status int, code string) {
	if code == "" {
		code = "UNKNOWN"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"a fault of the test"}]}`, code)
}

// send sends a response with the effects of the fault.
func (f *Fault) send(ctx context.Context, w http.ResponseWriter, answer *recorder) {
	for key, values := range answer.header {
		if key != "Content-Length" && w.Header().Get(key) == "" {
			w.Header()[key] = values
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(answer.body)))
	w.WriteHeader(answer.status)
	body, cut := answer.body, false
	if f.CutAfter > 0 && f.CutAfter < len(body) {
		body, cut = body[:f.CutAfter], true
	}
	f.trickle(ctx, w, body)
	if cut {
		panic(http.ErrAbortHandler) // the server's way to close a connection
	}
}

func (f *Fault) trickle(ctx context.Context, w http.ResponseWriter, body []byte) {
	chunk := max(1, f.Chunk)
	if f.Chunk == 0 {
		chunk = 1 << 10
	}
	if f.Pause == 0 {
		chunk = max(1, len(body))
	}
	control := http.NewResponseController(w)
	for len(body) > 0 {
		n := min(chunk, len(body))
		if _, err := w.Write(body[:n]); err != nil {
			return
		}
		_ = control.Flush() // the next write detects that the client is gone
		body = body[n:]
		if !sleep(ctx, f.Pause) {
			return
		}
	}
}

// sleep waits, and reports whether the client is still connected.
func sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// recorder buffers a response so that a fault can change it.
type recorder struct {
	header http.Header
	status int
	body   []byte
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(p []byte) (int, error) {
	r.body = append(r.body, p...)
	return len(p), nil
}
