// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/binary"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const (
	added    = `{"type":"ADDED","object":{}}` + "\n"
	modified = `{"type":"MODIFIED","object":{}}` + "\n"
	bookmark = `{"type":"BOOKMARK","object":{}}` + "\n"
	initial  = `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
)

// framed returns an event with its length, as in protobuf.
func framed(event string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(event)))) + event
}

func TestEventFault_Effects(t *testing.T) {
	protobufAdded, protobufBookmark := framed("\x0a\x05ADDED\x12\x00"), framed("\x0a\x08BOOKMARK\x12\x00")
	for name, test := range map[string]struct {
		fault      EventFault
		kind, sent string
		want       string
		happened   int
	}{
		"a lost event":                      {EventFault{Effect: DropEvent, Times: 1}, "application/json", added + modified, modified, 1},
		"each second event twice":           {EventFault{Effect: RepeatEvent, Every: 2}, "application/json", added + modified, added + modified + modified, 1},
		"bookmarks are not counted":         {EventFault{Effect: DropEvent, Every: 2}, "application/json", added + bookmark + modified, added + bookmark, 1},
		"lost bookmarks":                    {EventFault{Effect: DropBookmarks}, "application/json", added + bookmark + initial, added + initial, 1},
		"lost bookmarks in protobuf":        {EventFault{Effect: DropBookmarks}, "application/vnd.kubernetes.protobuf", protobufAdded + protobufBookmark, protobufAdded, 1},
		"an event twice in protobuf":        {EventFault{Effect: RepeatEvent}, "application/vnd.kubernetes.protobuf", protobufAdded, protobufAdded + protobufAdded, 1},
		"the end of the response, no event": {EventFault{Effect: DropEvent}, "application/json", "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxy()
			happened := p.FailEvents(test.fault)
			body := newEventBody(p, &http.Response{
				Body: io.NopCloser(strings.NewReader(test.sent)), Header: http.Header{"Content-Type": {test.kind + ";stream=watch"}},
				Request: &http.Request{URL: &url.URL{Path: "/a"}},
			})
			got, err := io.ReadAll(body)
			if string(got) != test.want || err != nil || happened() != test.happened {
				t.Errorf("read %q, %v, %d injections; want %q, %d", got, err, happened(), test.want, test.happened)
			}
			if lost := test.fault.Effect == DropEvent && test.happened > 0; len(p.expired) > 0 != lost {
				t.Errorf("expired watches: %v", p.expired)
			}
		})
	}
}

// A watch of other objects, in another format, or from the beginning must not receive the response for the client that
// has lost an event.
func TestEventFault_LostEventExpiresItsWatchOnce(t *testing.T) {
	_, p, client := start(t)
	p.expire("/a [] [] json")
	for _, step := range []struct {
		url, format string
		want        int
	}{
		{"/b?watch=true&resourceVersion=7", "json", http.StatusOK},
		{"/a?watch=true&resourceVersion=7&labelSelector=x", "json", http.StatusOK},
		{"/a?watch=true&resourceVersion=7", "protobuf", http.StatusOK},
		{"/a?watch=true&resourceVersion=0", "json", http.StatusOK},
		{"/a?watch=true", "json", http.StatusOK},
		{"/a?watch=true&resourceVersion=7", "json", http.StatusGone},
		{"/a?watch=true&resourceVersion=7", "json", http.StatusOK},
	} {
		p.Heal()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Config().Host+step.url, nil)
		must(t, err)
		request.Header.Set("Accept", step.format)
		response, err := client.Do(request)
		must(t, err)
		if response.Body.Close(); response.StatusCode != step.want {
			t.Errorf("%s as %s: status %d, want %d", step.url, step.format, response.StatusCode, step.want)
		}
	}
}
