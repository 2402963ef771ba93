// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/extension"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/install/tlsprofile"
	"github.com/capi-installer/capi-installer/internal/certificate"
)

// serve serves the hooks with a state on loopback until the test ends, and returns the address.
func serve(t *testing.T, handler http.Handler, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	server := &Server{Handler: handler, Certificate: certificate, Profile: &tlsprofile.Profile{}}
	go func() { ended <- server.serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// recorder collects events.
type recorder struct {
	mu     sync.Mutex
	events []status.Event
}

func (r *recorder) notify(_ context.Context, _ *v1alpha1.ClusterAPI, events ...status.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, events...)
}

// of returns a function that returns a state.
func of(state State, err error) func(context.Context) (State, error) {
	return func(context.Context) (State, error) { return state, err }
}

// TestServer_ConformsToTheRuleSet runs the rules of capi-manifests extension test: no finding of any severity.
func TestServer_ConformsToTheRuleSet(t *testing.T) {
	rollout := cluster("1.0.0-1", "1.1.0-2", phase("aws", v1alpha1.PhaseProgressing, 0))
	rollout.Status.Versions[0].Components, rollout.Status.Versions[1].Components = version("v1.14.2").Components, version("v1.14.2").Components
	installed := rollout.DeepCopy()
	installed.Status.CurrentVersion, installed.Status.Versions[1].Phases = "1.1.0-2", nil
	for name, test := range map[string]struct {
		state  State
		now    time.Time
		events int
	}{
		"a rollout":          {State{rollout, start}, start.Add(time.Minute), 0},
		"after the limit":    {State{rollout, start}, start.Add(time.Hour), 1},
		"a complete version": {State{Cluster: installed}, start, 0},
	} {
		t.Run(name, func(t *testing.T) {
			serving, caBundle, err := certificate.NewServing(time.Now().AddDate(1, 0, 0), "127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			pair, err := tls.X509KeyPair(serving.Certificate, serving.Key)
			if err != nil {
				t.Fatal(err)
			}
			events := &recorder{}
			handler := &Handler{State: of(test.state, nil), Limit: DefaultLimit, Notify: events.notify, Now: func() time.Time { return test.now }}
			address := serve(t, handler.Routes(), func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil })
			client, err := extension.NewClient("https://"+address, caBundle)
			if err != nil {
				t.Fatal(err)
			}
			transcript, err := extension.Talk(t.Context(), client, extension.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(transcript.Handlers) != len(hooks) {
				t.Fatalf("%d handlers were discovered, want %d", len(transcript.Handlers), len(hooks))
			}
			for _, f := range extension.Findings(extension.Check(transcript, "server")) {
				if f.Severity.AtLeast(contract.Info) {
					t.Errorf("%s %s: %s %s %s", f.Severity, f.Rule, f.Object, f.Field, f.Message)
				}
			}
			if len(events.events) != test.events {
				t.Errorf("%d events, want %d", len(events.events), test.events)
			}
		})
	}
}

// post sends a request to a handler without a network and returns the status and the response.
func post(t *testing.T, handler *Handler, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.Routes().ServeHTTP(w, request)
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestHandler_Answers(t *testing.T) {
	const group = "hooks.runtime.cluster.x-k8s.io/v1alpha1"
	create := "/" + group + "/beforeclustercreate/before-cluster-create"
	request := func(kind string) string { return `{"apiVersion":"` + group + `","kind":"` + kind + `","cluster":{}}` }
	rollout := State{cluster("1.0.0-1", "1.1.0-2", phase("aws", v1alpha1.PhaseProgressing, 0)), start}
	unreadable := errors.New("unavailable")
	for _, test := range []struct {
		name       string
		state      func(context.Context) (State, error)
		path, body string
		status     int
		want       string
	}{
		{"a delay", of(rollout, nil), create, request("BeforeClusterCreateRequest"), http.StatusOK,
			`{"kind":"BeforeClusterCreateResponse","apiVersion":"` + group + `","status":"Success","message":"waiting: version 1.1.0-2 of the Cluster API providers is being installed: ` +
				`phase aws is Progressing","retryAfterSeconds":15}`},
		{"an unreadable state", of(State{}, unreadable), create, request("BeforeClusterCreateRequest"), http.StatusOK,
			`{"kind":"BeforeClusterCreateResponse","apiVersion":"` + group + `","status":"Success","retryAfterSeconds":0}`},
		{"discovery with an unreadable state", of(State{}, unreadable), "/" + group + "/discovery", request("DiscoveryRequest"), http.StatusOK,
			`{"kind":"DiscoveryResponse","apiVersion":"` + group + `","status":"Failure","message":"the state of the installer cannot be read"}`},
		{"a request of another hook", of(rollout, nil), create, request("BeforeClusterUpgradeRequest"), http.StatusBadRequest,
			"invalid request " + group + " BeforeClusterUpgradeRequest: want " + group + " BeforeClusterCreateRequest"},
		{"invalid JSON", of(rollout, nil), create, "{", http.StatusBadRequest, "invalid request: unexpected EOF"},
		{"a large request", of(rollout, nil), create, `{"x":"` + strings.Repeat("x", maxRequest) + `"}`, http.StatusBadRequest, "invalid request: http: request body too large"},
		{"another handler", of(rollout, nil), create + "-2", request("BeforeClusterCreateRequest"), http.StatusNotFound, "404 page not found"},
	} {
		handler := &Handler{State: test.state, Limit: DefaultLimit, Now: func() time.Time { return start }}
		status, got := post(t, handler, test.path, test.body)
		if status != test.status || got != test.want {
			t.Errorf("%s: %d %s\nwant %d %s", test.name, status, got, test.status, test.want)
		}
	}
}

// A client that trusts the CA bundle of the day before accepts the certificate of each day for five years, and while the
// CA cannot be read.
func TestCertificate_FollowsTheCA(t *testing.T) {
	names := servingcert.Names(v1alpha1.OpenShiftNamespaces.Operator, Name)
	authority, now, broken := servingcert.Authority{}, start, false
	serving := &Certificate{Names: names, Now: func() time.Time { return now }, Authority: func(context.Context) (servingcert.Authority, error) {
		if broken {
			return servingcert.Authority{}, errors.New("unavailable")
		}
		return authority, nil
	}}
	bundle, issued := []byte(nil), map[string]bool{}
	for day := range 5 * 365 {
		now, broken = start.AddDate(0, 0, day), day%10 == 9
		renewed, _, err := authority.Renewed(now)
		if err != nil {
			t.Fatal(err)
		}
		if authority = renewed; bundle == nil {
			bundle = authority.Bundle()
		}
		pair, err := serving.Get(nil)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(bundle)
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: names[0], CurrentTime: now}); err != nil {
			t.Fatalf("day %d: %v", day, err)
		}
		bundle, issued[pair.Leaf.SerialNumber.String()] = authority.Bundle(), true
	}
	if len(issued) < 6 {
		t.Errorf("%d certificates were issued in five years", len(issued))
	}
}

func TestCertificate_MissingCA(t *testing.T) {
	serving := &Certificate{Names: []string{"a"}, Authority: func(context.Context) (servingcert.Authority, error) {
		return servingcert.Authority{}, errors.New("Secret not found")
	}}
	if _, err := serving.Get(nil); err == nil || !strings.Contains(err.Error(), "Secret not found") {
		t.Errorf("error %v", err)
	}
	address := serve(t, http.NotFoundHandler(), serving.Get)
	if connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}); err == nil {
		_, _ = io.Copy(io.Discard, connection)
		t.Error("a connection without certificate is accepted")
	}
}
