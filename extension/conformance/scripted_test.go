// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/certificate"
	"github.com/capi-installer/capi-installer/internal/object"
)

// scripted is a server with the answers of an example.
type scripted struct {
	settings struct {
		Host, Expires, TLS string
		AnyPath            bool
	}
	// answers are the answers of each handler, and of discovery.
	answers map[string][]map[string]any

	sync.Mutex
	given   map[string]int
	aborted bool
}

func readScript(t testing.TB, text string) *scripted {
	t.Helper()
	parts := map[string]json.RawMessage{}
	if err := yaml.Unmarshal([]byte(text), &parts); err != nil {
		t.Fatal(err)
	}
	s := &scripted{answers: map[string][]map[string]any{}, given: map[string]int{}}
	for name, part := range parts {
		var err error
		if name == "$server" {
			err = json.Unmarshal(part, &s.settings)
		} else {
			var answers []map[string]any
			err = json.Unmarshal(part, &answers)
			s.answers[name] = answers
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return s
}

// start starts the server and returns a client of it.
func (s *scripted) start(t testing.TB) Client {
	t.Helper()
	valid, err := time.ParseDuration(cmp.Or(s.settings.Expires, "8760h"))
	if err != nil {
		t.Fatal(err)
	}
	serving, caBundle, err := certificate.NewServing(time.Now().Add(valid), cmp.Or(s.settings.Host, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(serving.Certificate, serving.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if s.settings.TLS == "1.0" {
		server.TLS.MinVersion = tls.VersionTLS10
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	client, err := NewClient(server.URL, caBundle)
	if err != nil {
		t.Fatal(err)
	}
	return &scriptedClient{Client: client, script: s}
}

// scriptedClient gives answers the duration of the script, so that the load of the machine does not matter.
type scriptedClient struct {
	Client
	script *scripted
}

func (c *scriptedClient) Call(ctx context.Context, path string, request []byte, timeout time.Duration) Answer {
	answer := c.Client.Call(ctx, path, request, timeout)
	answer.Took = 0
	for _, a := range c.script.answers[nameIn(path)] {
		if took, err := time.ParseDuration(object.TextAt(a, "$took")); err == nil {
			answer.Took = took
		}
	}
	return answer
}

// Abort waits until the server has noticed that the request is closed.
func (c *scriptedClient) Abort(ctx context.Context, path string, request []byte, all bool) {
	c.Client.Abort(ctx, path, request, all)
	c.script.Lock()
	defer c.script.Unlock()
	c.script.aborted = true
}

func nameIn(path string) string { return path[strings.LastIndex(path, "/")+1:] }

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return // an aborted request
	}
	answer := s.choose(nameIn(r.URL.Path), content)
	switch {
	case answer == nil && s.settings.AnyPath:
		answer = map[string]any{"status": "Success"}
	case answer == nil || r.Method != http.MethodPost:
		http.NotFound(w, r)
		return
	case answer["$took"] == "forever":
		<-r.Context().Done()
		return
	}
	if status, is := answer["$status"].(float64); is {
		http.Error(w, object.TextAt(answer, "$body"), int(status))
		return
	}
	encoded, _ := json.Marshal(filled(answer, content)) // decoded JSON
	_, _ = w.Write(encoded)                             // the client may be gone
}

// choose returns the answer to a request.
func (s *scripted) choose(name string, request []byte) map[string]any {
	s.Lock()
	defer s.Unlock()
	var plain []map[string]any
	for _, answer := range s.answers[name] {
		condition := object.TextAt(answer, "$if")
		if condition == "" {
			plain = append(plain, answer)
		} else if s.holds(condition, name, request) {
			return answer
		}
	}
	if !json.Valid(request) && name != "discovery" {
		return map[string]any{"$status": float64(http.StatusBadRequest), "$body": "invalid JSON"}
	}
	if len(plain) == 0 {
		return nil
	}
	s.given[name]++
	return plain[(s.given[name]-1)%len(plain)]
}

// holds reports whether a request is of a kind. The requests after the malformed one are concurrent, until the aborted ones.
func (s *scripted) holds(condition, name string, request []byte) bool {
	if !json.Valid(request) {
		s.given[name+" malformed"]++
	}
	switch condition {
	case "malformed":
		return !json.Valid(request)
	case "unknown-field":
		return bytes.Contains(request, []byte(unknownField))
	case "unknown-setting":
		return bytes.Contains(request, []byte("settingOfALaterVersion"))
	case "reordered":
		return bytes.Index(request, []byte("bootstrap.cluster.x-k8s.io")) < bytes.Index(request, []byte(`"kind":"DevClusterTemplate"`))
	case "patched":
		return bytes.Count(request, []byte(`{"name":"v","value":"2"}`)) > 0
	case "concurrent":
		return s.given[name+" malformed"] > 0 && json.Valid(request) && !s.aborted
	case "aborted":
		return s.aborted
	}
	return false
}

// filled returns an answer with encoded patches and the UIDs of a request.
func filled(answer map[string]any, request []byte) map[string]any {
	result := map[string]any{}
	for key, value := range body(answer).normal() {
		if !strings.HasPrefix(key, "$") {
			result[key] = value
		}
		if patch := asObject(value); patch["patchType"] != nil {
			encodePatch(patch)
		}
	}
	items, _ := result["items"].([]any)
	for _, item := range items {
		encodePatch(asObject(item))
		asObject(item)["uid"] = uidIn(request, object.TextAt(asObject(item), "uid"))
	}
	return result
}

func encodePatch(patch map[string]any) {
	patch["patch"] = base64.StdEncoding.EncodeToString([]byte(object.TextAt(patch, "patch")))
}

// uidIn returns the UID of a template of a kind in a request: the same in every order of the request.
func uidIn(request []byte, uid string) string {
	var content struct {
		Items []map[string]any `json:"items"`
	}
	_ = json.Unmarshal(request, &content) // without items the UID stays
	var found []string
	for _, item := range content.Items {
		if "$"+object.TextAt(item, "object", "kind") == uid {
			found = append(found, object.TextAt(item, "uid"))
		}
	}
	if len(found) == 0 {
		return uid
	}
	return slices.Min(found)
}
