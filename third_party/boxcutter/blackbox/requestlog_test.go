// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// requests records every request of its transport.
type requests struct {
	mu    sync.Mutex
	noted []*request
	// latency is added to each request.
	latency time.Duration
	// answer, if not nil, can return a response in place of the API server's.
	answer func(request) *http.Response
}

// request is a recorded request.
type request struct {
	// verb is get, list, watch, create, update, delete, apply, patch or discover; with the prefix "dry-run " for dry
	// runs.
	verb string
	// path is the path of the URL.
	path string
	// query is the query of the URL.
	query string
	// body is the body of the request.
	body string
	// rejected is true if the API server answered with an error.
	rejected bool
}

type roundTripper func(*http.Request) (*http.Response, error)

func (fn roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return fn(r) }

// count is a transport that records requests and passes them to another.
func (q *requests) count(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		noted := &request{verb: verbOf(r), path: r.URL.Path, query: r.URL.RawQuery}
		if r.Body != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			noted.body, r.Body = string(body), io.NopCloser(bytes.NewReader(body))
		}
		q.mu.Lock()
		q.noted = append(q.noted, noted)
		latency, answer := q.latency, q.answer
		q.mu.Unlock()
		time.Sleep(latency)
		if answer != nil {
			if response := answer(*noted); response != nil {
				response.Request = r
				return response, nil
			}
		}
		response, err := next.RoundTrip(r)
		q.mu.Lock()
		defer q.mu.Unlock()
		noted.rejected = err == nil && response.StatusCode >= http.StatusBadRequest
		return response, err
	})
}

func verbOf(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, "/openapi") || len(strings.Split(strings.Trim(r.URL.Path, "/"), "/")) < 4 && !isList(r) {
		return "discover"
	}
	query := r.URL.Query()
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodDelete: "delete", http.MethodPatch: "patch"}[r.Method]
	switch {
	case query.Get("watch") != "":
		return "watch"
	case r.Method == http.MethodPatch && strings.Contains(r.Header.Get("Content-Type"), "apply-patch"):
		verb = "apply"
	case r.Method == http.MethodGet && isList(r):
		return "list"
	}
	if query.Get("dryRun") != "" {
		verb = "dry-run " + verb
	}
	return cmp.Or(verb, "get")
}

// isList reports whether a request is for several objects: its path ends with a resource.
func isList(r *http.Request) bool {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[1:] // the version
	} else {
		parts = parts[min(2, len(parts)):] // group and version
	}
	parts = parts[min(1, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	return len(parts) == 1
}

// take returns the requests since the last call.
func (q *requests) take() []request {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []request
	for _, noted := range q.noted {
		out = append(out, *noted)
	}
	q.noted = nil
	return out
}

// verbs counts the requests since the last call, by verb and without discovery.
func (q *requests) verbs() map[string]int {
	out := map[string]int{}
	for _, request := range q.take() {
		if request.verb != "discover" {
			out[request.verb]++
		}
	}
	return out
}

// writes counts the writes and dry runs since the last call.
func (q *requests) writes() map[string]int {
	out := q.verbs()
	maps.DeleteFunc(out, func(verb string, _ int) bool { return slices.Contains([]string{"get", "list", "watch"}, verb) })
	return out
}

// set changes the latency and the answer.
func (q *requests) set(latency time.Duration, answer func(request) *http.Response) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.latency, q.answer = latency, answer
}
