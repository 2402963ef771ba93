// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

// EventEffect is the effect of an EventFault.
type EventEffect int

const (
	// DropEvent drops the event. The watch ends two seconds later, and the client's
	// attempt to resume it fails with 410 (Gone), also after Heal, so that the client
	// lists again. Otherwise a client could not notice the lost event.
	DropEvent EventEffect = iota + 1
	// RepeatEvent sends the event twice.
	RepeatEvent
	// DelayEvent delays the event, and all later events of the watch, by two seconds.
	DelayEvent
	// DropBookmarks drops all bookmarks, except those that end a streaming list.
	DropBookmarks
)

// String describes the effect.
func (e EventEffect) String() string {
	return [...]string{"", "event lost", "event repeated", "event delayed", "bookmark lost"}[e]
}

// eventDelay is the time of DropEvent and DelayEvent.
const eventDelay = 2 * time.Second

// EventFault describes a fault of watch events.
type EventFault struct {
	Effect EventEffect
	// Every injects the fault only into every nth event of all watches; 0 means all.
	Every int
	// Times is the maximum number of injections; 0 means no limit.
	Times int
	// Path is a part of the paths of the affected watches; empty affects all watches.
	Path string
}

// FailEvents injects a fault into watch events until Heal. It replaces an earlier event
// fault. The returned function returns the number of injections.
func (p *Proxy) FailEvents(fault EventFault) (happened func() int) {
	added := &scriptedEvents{EventFault: fault}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.events = added
	return func() int {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		return added.happened
	}
}

// scriptedEvents is an event fault with the numbers of counted events and of injections.
type scriptedEvents struct {
	EventFault
	counted, happened int
}

// Events returns the number of events by the path of their watch, without bookmarks.
func (p *Proxy) Events() map[string]int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return maps.Clone(p.eventCount)
}

// CutWatches ends all watches whose path contains the given string. The attempts of the
// clients to resume them fail with 410 (Gone), so that the clients list again. It returns the
// number of watches.
func (p *Proxy) CutWatches(path string) int {
	p.mutex.Lock()
	var bodies []*eventBody
	for body := range p.open {
		if strings.Contains(body.path, path) {
			bodies = append(bodies, body)
		}
	}
	p.mutex.Unlock()
	for _, body := range bodies {
		p.expire(body.watch)
		_ = body.Close()
		p.disturbed(body.path, "watch cut and expired")
	}
	return len(bodies)
}

// opened adds a watch until it is closed.
func (p *Proxy) opened(body *eventBody) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.open[body] = true
}

func (p *Proxy) ended(body *eventBody) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.open, body)
}

// meetEvent counts an event of a watch and returns the effect to inject, or 0.
func (p *Proxy) meetEvent(path string, event []byte) EventEffect {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	s, bookmark := p.events, isBookmark(event)
	if !bookmark {
		p.eventCount[path]++
	}
	if s == nil || !strings.Contains(path, s.Path) || bookmark != (s.Effect == DropBookmarks) || s.Times > 0 && s.happened == s.Times {
		return 0
	}
	s.counted++
	if s.Every > 0 && s.counted%s.Every != 0 {
		return 0
	}
	s.happened++
	return s.Effect
}

// isBookmark reports whether an event, in JSON or protobuf, is a bookmark that does not end
// a streaming list.
func isBookmark(event []byte) bool {
	named := bytes.Contains(event, []byte(`"type":"BOOKMARK"`)) || bytes.Contains(event[:min(len(event), 20)], []byte("BOOKMARK"))
	return named && !bytes.Contains(event, []byte("k8s.io/initial-events-end"))
}

// eventBody is the body of a watch, into whose events faults are injected.
type eventBody struct {
	io.ReadCloser
	proxy    *Proxy
	path     string
	watch    string // identity of the watch
	events   *bufio.Reader
	protobuf bool
	pending  []byte
	err      error
}

// newEventBody returns the body of the response to a watch.
func newEventBody(proxy *Proxy, answer *http.Response) *eventBody {
	body := &eventBody{
		ReadCloser: answer.Body, proxy: proxy, path: answer.Request.URL.Path, watch: watchIdentity(answer.Request), events: bufio.NewReader(answer.Body),
		protobuf: strings.Contains(answer.Header.Get("Content-Type"), "protobuf"),
	}
	proxy.opened(body)
	return body
}

// Close ends the watch.
func (b *eventBody) Close() error {
	b.proxy.ended(b)
	return b.ReadCloser.Close()
}

// Read returns the next events.
func (b *eventBody) Read(into []byte) (int, error) {
	for len(b.pending) == 0 && b.err == nil {
		b.next()
	}
	if len(b.pending) == 0 {
		return 0, b.err
	}
	n := copy(into, b.pending)
	b.pending = b.pending[n:]
	return n, nil
}

// next reads an event and injects its fault.
func (b *eventBody) next() {
	event, err := b.frame()
	if err != nil || len(event) == 0 {
		b.pending, b.err = event, err
		return
	}
	effect := b.proxy.meetEvent(b.path, event)
	if effect != 0 {
		b.proxy.disturbed(b.path, effect.String())
	}
	switch effect {
	case DropEvent:
		b.proxy.expire(b.watch)
		time.AfterFunc(eventDelay, func() { _ = b.Close() })
	case RepeatEvent:
		b.pending = append(bytes.Clone(event), event...)
	case DelayEvent:
		time.Sleep(eventDelay)
		b.pending = event
	case DropBookmarks:
	default:
		b.pending = event
	}
}

// watchIdentity is equal for the requests that start and resume a watch.
func watchIdentity(r *http.Request) string {
	query := r.URL.Query()
	return fmt.Sprint(r.URL.Path, " ", query["labelSelector"], " ", query["fieldSelector"], " ", r.Header.Get("Accept"))
}

// expire makes the next attempt to resume a watch fail.
func (p *Proxy) expire(watch string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.expired[watch] = true
}

// isExpired reports whether a request resumes a watch that must be restarted with
// a list.
func (p *Proxy) isExpired(r *http.Request) bool {
	from := r.URL.Query().Get("resourceVersion")
	if verb(r) != Watch || from == "" || from == "0" {
		return false
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	watch := watchIdentity(r)
	expired := p.expired[watch]
	delete(p.expired, watch)
	return expired
}

// frame reads an event with its delimiter: a line of JSON, or a length of four bytes
// before protobuf.
func (b *eventBody) frame() ([]byte, error) {
	if !b.protobuf {
		return b.events.ReadBytes('\n')
	}
	var length [4]byte
	if _, err := io.ReadFull(b.events, length[:]); err != nil {
		return nil, err
	}
	event := make([]byte, 4+binary.BigEndian.Uint32(length[:]))
	copy(event, length[:])
	if _, err := io.ReadFull(b.events, event[4:]); err != nil {
		return nil, fmt.Errorf("reading an event: %w", err)
	}
	return event, nil
}
