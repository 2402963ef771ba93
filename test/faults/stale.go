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

// Freeze delays the events of watches until Thaw, like a stale watch cache. Reads and
// writes continue. It affects watches whose path contains one of the given strings, or
// all watches if there are none.
func (p *Proxy) Freeze(paths ...string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
	p.frozenPaths = paths
}

// Thaw ends Freeze and sends the delayed events.
func (p *Proxy) Thaw() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// Frozen reports whether the events of watches are delayed.
func (p *Proxy) Frozen() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.frozen != nil
}

// thawed returns a channel that is closed when the watch of a path is no longer frozen;
// nil if it is not frozen.
func (p *Proxy) thawed(path string) <-chan struct{} {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.frozen == nil || !containsAny(path, p.frozenPaths) {
		return nil
	}
	return p.frozen
}

// containsAny reports whether a path contains one of the strings, or there are
// none.
func containsAny(path string, texts []string) bool {
	return len(texts) == 0 || slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(path, text) })
}

// gatedBody is the body of a watch. Freeze holds it back.
type gatedBody struct {
	io.ReadCloser
	proxy *Proxy
	path  string
	ctx   context.Context
}

func (b *gatedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if gate := b.proxy.thawed(b.path); gate != nil {
		b.proxy.disturbed(b.path, "events held back")
		select {
		case <-gate:
		case <-b.ctx.Done():
			return 0, context.Cause(b.ctx)
		}
	}
	return n, err
}

// RecordLists lists all objects that clients of the proxy watch, for
// ServeStaleLists.
func (p *Proxy) RecordLists(ctx context.Context) error { return p.lists.record(ctx) }

// ServeStaleLists responds to lists that may come from a cache (resourceVersion=0) with
// the lists of the last RecordLists, and rejects streaming lists, until Heal. Consistent
// reads go to the API server. It affects paths that contain one of the given strings, or
// all paths if there are none.
func (p *Proxy) ServeStaleLists(paths ...string) { p.lists.serve(paths, false) }

// ServeStaleStreams is ServeStaleLists for an API server with streaming lists: it
// responds with the recorded objects, and sends no further events until Thaw.
func (p *Proxy) ServeStaleStreams(paths ...string) { p.lists.serve(paths, true) }

// awaitThaw waits until watches are not frozen or the request ends.
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

// lists holds recorded lists of the objects that clients watch.
type lists struct {
	forward http.RoundTripper
	target  string

	mutex    sync.Mutex
	watched  map[string]http.Header // of the requests, by list
	recorded map[string][]byte      // JSON, by list
	stale    bool
	streams  bool // accepts streaming lists
	paths    []string
}

// list identifies the list of a request by its path and selectors.
func list(r *http.Request) string {
	query := url.Values{}
	for _, key := range []string{"labelSelector", "fieldSelector"} {
		if value := r.URL.Query().Get(key); value != "" {
			query.Set(key, value)
		}
	}
	return r.URL.Path + "?" + query.Encode()
}

// answer records watched lists. It returns a function that responds to a request with
// the stale list, or nil if the list is not stale. wait is called before the end of a
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

// stream responds to a streaming list with the objects of a list, and calls wait
// before it ends the watch.
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

// listFormat returns the JSON list format for the format of a watch.
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
	request.Header.Set("Accept", listFormat(header.Get("Accept")))
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
