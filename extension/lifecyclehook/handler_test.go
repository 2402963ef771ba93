// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extension/conformance"
)

// of returns a function that returns a state.
func of(state State, err error) func(context.Context) (State, error) {
	return func(context.Context) (State, error) { return state, err }
}

// TestServer_ConformsToTheRuleSet runs the rules of capi-extension test: no finding of any severity.
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
			events := map[string]bool{}
			handler := &Handler{
				State: of(test.state, nil), Limit: DefaultLimit, Now: func() time.Time { return test.now },
				Exceeded: func(_ context.Context, state State, b Blocker) {
					events[EventAbout(state.Cluster, b, DefaultLimit, start).Name] = true
				},
			}
			server := httptest.NewTLSServer(handler.Routes())
			defer server.Close()
			client, err := conformance.NewClient(server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
			if err != nil {
				t.Fatal(err)
			}
			transcript, err := conformance.Talk(t.Context(), client, conformance.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(transcript.Handlers) != len(hooks) {
				t.Fatalf("%d handlers were discovered, want %d", len(transcript.Handlers), len(hooks))
			}
			for _, f := range conformance.Findings(conformance.Check(transcript, "server")) {
				if f.Severity.AtLeast(contract.Info) {
					t.Errorf("%s %s: %s %s %s", f.Severity, f.Rule, f.Object, f.Field, f.Message)
				}
			}
			if len(events) != test.events {
				t.Errorf("%d events, want %d", len(events), test.events)
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
