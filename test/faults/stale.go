// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// Freeze holds back the events of watches until Thaw, as a watch cache that lags behind
// does. Reads and writes go on. It affects the watches of paths that contain one of the
// given texts; without texts, all.
func (p *Proxy) Freeze(paths ...string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
	p.frozenPaths = paths
}

// Thaw ends Freeze: the events arrive.
func (p *Proxy) Thaw() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// Frozen reports whether watches are held back.
func (p *Proxy) Frozen() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.frozen != nil
}

// thawed returns a channel that is closed once the watch of a path flows; nil if it does.
func (p *Proxy) thawed(path string) <-chan struct{} {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.frozen == nil || !containsAny(path, p.frozenPaths) {
		return nil
	}
	return p.frozen
}

// containsAny reports whether a path contains one of the texts, or there are none.
func containsAny(path string, texts []string) bool {
	return len(texts) == 0 || slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(path, text) })
}

// gatedBody is the body of a watch, which Freeze holds back.
type gatedBody struct {
	io.ReadCloser
	proxy *Proxy
	path  string
	ctx   context.Context
}

func (b *gatedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if gate := b.proxy.thawed(b.path); gate != nil {
		select {
		case <-gate:
		case <-b.ctx.Done():
			return 0, context.Cause(b.ctx)
		}
	}
	return n, err
}

// RecordLists reads everything that clients of the proxy watch, for ServeStaleLists.
func (p *Proxy) RecordLists(ctx context.Context) error { return p.lists.record(ctx) }

// ServeStaleLists answers lists that may come from a cache (resourceVersion=0) with those
// of the last RecordLists, and rejects streaming lists, until Heal. Consistent reads go
// to the API server. It affects the paths that contain one of the given texts; without
// texts, all.
func (p *Proxy) ServeStaleLists(paths ...string) { p.lists.serve(paths, false) }

// ServeStaleStreams is ServeStaleLists for an API server with streaming lists: it answers
// them with the recorded objects, and sends no further event until Thaw.
func (p *Proxy) ServeStaleStreams(paths ...string) { p.lists.serve(paths, true) }

// awaitThaw waits until watches flow, or the request ends.
func (p *Proxy) awaitThaw(ctx context.Context) {
	p.mutex.Lock()
	gate := p.frozen
	p.mutex.Unlock()
	if gate == nil {
		return
	}
	select {
	case <-gate:
	case <-ctx.Done():
	}
}

// lists are the lists that clients watch, as they were once.
type lists struct {
	forward       http.RoundTripper
	target, token string

	mutex    sync.Mutex
	watched  map[string]http.Header // of the requests, by list
	recorded map[string][]byte      // JSON, by list
	stale    bool
	streams  bool // accepts streaming lists
	paths    []string
}

// list identifies the list that a request is for: its path and selectors.
func list(r *http.Request) string {
	query := url.Values{}
	for _, key := range []string{"labelSelector", "fieldSelector"} {
		if value := r.URL.Query().Get(key); value != "" {
			query.Set(key, value)
		}
	}
	return r.URL.Path + "?" + query.Encode()
}

// answer notes lists that are watched, and returns the function that answers a request
// for a list while it is stale; nil otherwise. wait is called before the end of a
// streaming list.
func (l *lists) answer(w http.ResponseWriter, r *http.Request, wait func()) func() {
	if r.Method != http.MethodGet {
		return nil
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	query, name := r.URL.Query(), list(r)
	if query.Has("watch") {
		if l.watched == nil {
			l.watched = map[string]http.Header{}
		}
		l.watched[name] = r.Header.Clone()
	}
	old, known := l.recorded[name]
	if !l.stale || !known || !containsAny(r.URL.Path, l.paths) {
		return nil
	}
	switch streaming := query.Get("sendInitialEvents") == "true"; {
	case streaming && l.streams:
		return func() { stream(w, old, wait) }
	case streaming:
		return func() { answer(w, Fault{Status: http.StatusUnprocessableEntity}) }
	case !query.Has("watch") && query.Get("resourceVersion") == "0":
		return func() { sendJSON(w, old) }
	default:
		return nil
	}
}

func sendJSON(w http.ResponseWriter, content []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(content)
}

// stream answers a streaming list with the objects of a list, and calls wait before it
// ends the watch.
func stream(w http.ResponseWriter, list []byte, wait func()) {
	events, err := initialEvents(list)
	if err != nil {
		answer(w, Fault{Status: http.StatusInternalServerError})
		return
	}
	sendJSON(w, events)
	_ = http.NewResponseController(w).Flush()
	wait()
}

// initialEvents returns the events of a streaming list: the objects of a list, and a
// bookmark with its resource version.
func initialEvents(list []byte) ([]byte, error) {
	content := unstructured.UnstructuredList{}
	if err := content.UnmarshalJSON(list); err != nil {
		return nil, err
	}
	kind := strings.TrimSuffix(content.GetKind(), "List")
	end := unstructured.Unstructured{Object: map[string]any{}}
	end.SetResourceVersion(content.GetResourceVersion())
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	for i, object := range append(content.Items, end) {
		object.SetAPIVersion(content.GetAPIVersion())
		object.SetKind(kind)
		event := watch.Added
		if i == len(content.Items) {
			event = watch.Bookmark
		}
		if err := encoder.Encode(map[string]any{"type": event, "object": object.Object}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

func (l *lists) serve(paths []string, streams bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.stale, l.paths, l.streams = true, paths, streams
}

func (l *lists) fresh() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.stale = false
}

func (l *lists) record(ctx context.Context) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.recorded = map[string][]byte{}
	var failed error
	for list, header := range l.watched {
		answer, err := l.read(ctx, list, header)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("listing %s: %w", list, err))
			continue
		}
		l.recorded[list] = answer
	}
	return failed
}

// listFormat returns the format of the list for a watch in a format: JSON, of the same objects.
func listFormat(watched string) string {
	if strings.Contains(watched, "as=PartialObjectMetadata") {
		return "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	return "application/json"
}

// read lists the objects that a client watches.
func (l *lists) read(ctx context.Context, list string, header http.Header) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.target+list, nil)
	if err != nil {
		return nil, err
	}
	if request.Header.Set("Accept", listFormat(header.Get("Accept"))); l.token != "" {
		request.Header.Set("Authorization", "Bearer "+l.token)
	}
	response, err := l.forward.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return body, err
}
