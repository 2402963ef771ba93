// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server counts the writes that reach it, and answers a watch with an event every 10 ms until the client disconnects.
type server struct {
	*httptest.Server
	writes atomic.Int32
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer secret" {
		http.Error(w, "unknown client", http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodGet {
		s.writes.Add(1)
	}
	for r.URL.Query().Has("watch") && r.Context().Err() == nil {
		fmt.Fprintln(w, "event")
		w.(http.Flusher).Flush()
		time.Sleep(10 * time.Millisecond)
	}
	if r.URL.Path == "/count" {
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"CountList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"%d"}}]}`, s.writes.Load())
		return
	}
	fmt.Fprint(w, "done")
}

// start starts a server, a proxy in front of it, and a client of the proxy without timeouts and retries.
func start(t *testing.T) (*server, *Proxy, *http.Client) {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	p, err := Start(&rest.Config{Host: s.URL, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: authority}})
	must(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("closing the proxy: %v", err)
		}
	})
	client, err := rest.HTTPClientFor(unkept(p.Config()))
	must(t, err)
	return s, p, client
}

// unkept gives a client's configuration a transport that reuses no connection, and so retries no request.
func unkept(config *rest.Config) *rest.Config {
	return &rest.Config{Host: config.Host, Transport: &http.Transport{DisableKeepAlives: true}}
}

// send sends a request and returns the status and the received part of the body.
func send(client *http.Client, method, url string) (int, string, error) {
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func TestProxy_ForwardsAndCountsRequests(t *testing.T) {
	s, p, client := start(t)
	for _, request := range []string{"GET /a", "GET /a", "PATCH /a?dryRun=All", "PATCH /a", "POST /a", "DELETE /a", "PUT /a", "HEAD /a"} {
		method, path, _ := strings.Cut(request, " ")
		if status, _, err := send(client, method, p.Config().Host+path); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d, %v", request, status, err)
		}
	}
	want := map[Request]int{{Get, false}: 2, {Patch, true}: 1, {Patch, false}: 1, {Create, false}: 1, {Delete, false}: 1, {Update, false}: 1, {"HEAD", false}: 1}
	if diff := cmp.Diff(want, p.Requests()); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if p.Writes() != 4 || s.writes.Load() != 6 {
		t.Errorf("%d writes counted, want 4; %d arrived, want 6", p.Writes(), s.writes.Load())
	}
}

func TestFault_StatusIsUnderstoodByClients(t *testing.T) {
	_, p, _ := start(t)
	p.Fail(Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Second, Times: 1})
	p.Fail(Fault{Status: http.StatusConflict})
	client, err := kubernetes.NewForConfig(unkept(p.Config()))
	must(t, err)
	began := time.Now()
	err = client.CoreV1().RESTClient().Get().AbsPath("/a").Do(t.Context()).Error()
	if !apierrors.IsConflict(err) || time.Since(began) < time.Second {
		t.Errorf("after %s: %v; want a wait of a second, and a conflict", time.Since(began), err)
	}
}

func TestFault_ResetAndLose(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  Fault
		writes int32
	}{{"reset", Fault{Reset: true}, 0}, {"lost", Fault{Lose: true}, 1}} {
		t.Run(test.name, func(t *testing.T) {
			s, p, client := start(t)
			p.Fail(test.fault)
			if _, _, err := send(client, http.MethodPost, p.Config().Host+"/a"); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%v, want a reset", err)
			}
			if s.writes.Load() != test.writes {
				t.Errorf("%d writes arrived, want %d", s.writes.Load(), test.writes)
			}
		})
	}
}

// startWatch starts a watch through the proxy, and returns its error when it ends.
func startWatch(client *http.Client, p *Proxy) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, _, err := send(client, http.MethodGet, p.Config().Host+"/a?watch=true")
		ended <- err
	}()
	for p.Requests()[Request{Verb: Watch}] == 0 {
		time.Sleep(time.Millisecond)
	}
	return ended
}

func TestProxy_DownAndUp(t *testing.T) {
	_, p, client := start(t)
	watch := startWatch(client, p)
	must(t, p.Down())
	if err := <-watch; err == nil {
		t.Error("the watch was not cut")
	}
	if _, _, err := send(client, http.MethodGet, p.Config().Host+"/a"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want a refused connection", err)
	}
	must(t, p.Up())
	if status, _, err := send(client, http.MethodGet, p.Config().Host+"/a"); status != http.StatusOK || err != nil {
		t.Errorf("after Up: %d, %v", status, err)
	}
}

func TestFault_VerbsPathsAndTimes(t *testing.T) {
	for _, test := range []struct {
		name     string
		fault    Fault
		requests string
		want     string // one letter per request: x if the fault affects it
	}{
		{"every request", Fault{}, "GET /a, POST /b", "xx"},
		{"by verb", Fault{Verbs: Writes}, "GET /a, PATCH /a, PUT /a, GET /a?watch=1", ".xx."},
		{"watches apart from reads", Fault{Verbs: []string{Watch}}, "GET /a, GET /a?watch=1", ".x"},
		{"by a part of the path", Fault{Path: "/services"}, "GET /api/v1/services/x, GET /api/v1/pods", "x."},
		{"by a pattern of the path", Fault{Path: "/api/*/services"}, "GET /api/v1/services, GET /api/v1/services/x, GET /api/v1/x/services", "x.."},
		{"twice", Fault{Times: 2}, "GET /a, GET /a, GET /a", "xx."},
		{"each third", Fault{Every: 3}, "GET /a, GET /a, GET /a, GET /a, GET /a, GET /a", "..x..x"},
		{"all but dry runs", Fault{SkipDryRuns: true}, "PATCH /a?dryRun=All, PATCH /a, GET /a", ".xx"},
		{"the first attempt of each operation", Fault{EachOnce: true}, "PATCH /a, PATCH /a, PATCH /a?dryRun=All, PUT /a, PATCH /b, PATCH /b", "x.xxx."},
		{"the first attempt of each write", Fault{EachFirst: true}, "PATCH /a, PATCH /a, PATCH /a, PATCH /b, PATCH /a, PATCH /a?dryRun=All, PATCH /a?dryRun=All, PATCH /a?dryRun=All", "x.xx.x.."},
		{"the first attempt of two writes of an object", Fault{EachFirst: true}, "PATCH /a, PATCH /a, PATCH /a, PATCH /a, PATCH /a", "x.x.."},
		{"the first attempt of each review", Fault{EachFirst: true}, "POST /apis/authorization.k8s.io/a, POST /apis/authorization.k8s.io/a, POST /apis/authorization.k8s.io/a", "x.."},
		{"each second, once", Fault{Every: 2, Times: 1}, "GET /a, GET /a, GET /a, GET /a", ".x.."},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, p, client := start(t)
			test.fault.Status = http.StatusTeapot
			happened := p.Fail(test.fault)
			got := ""
			for request := range strings.SplitSeq(test.requests, ", ") {
				method, path, _ := strings.Cut(request, " ")
				got += met(t, client, method, p.Config().Host+path)
			}
			if got != test.want {
				t.Errorf("affected requests: %s, want %s", got, test.want)
			}
			if want := strings.Count(test.want, "x"); happened() != want {
				t.Errorf("%d injections, want %d", happened(), want)
			}
		})
	}
}

// met returns x if the fault affects a request, otherwise a dot.
func met(t *testing.T, client *http.Client, method, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must(t, err)
	response, err := client.Do(request)
	must(t, err)
	response.Body.Close() // a watch does not end by itself
	if response.StatusCode == http.StatusTeapot {
		return "x"
	}
	return "."
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
