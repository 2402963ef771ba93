// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProxy_ObserveReportsRequests(t *testing.T) {
	_, p, client := start(t)
	p.Fail(Fault{Verbs: []string{Patch}, Status: http.StatusConflict})
	var got []Observation
	p.Observe(func(o Observation) {
		o.Time = time.Time{}
		got = append(got, o)
	})
	for _, method := range []string{http.MethodPatch, http.MethodPost} {
		if _, _, err := send(client, method, p.Config().Host+"/a?dryRun=All"); err != nil {
			t.Fatal(err)
		}
	}
	p.Close() // waits for the observations
	want := []Observation{{Verb: Patch, Path: "/a", DryRun: true, Status: http.StatusConflict, Faulty: true}, {Verb: Create, Path: "/a", DryRun: true, Status: http.StatusOK}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProxy_FreezeHoldsBackEvents(t *testing.T) {
	_, p, client := start(t)
	p.Freeze()
	response, err := client.Get(p.Config().Host + "/a?watch=true")
	must(t, err)
	defer response.Body.Close()
	events := make(chan string)
	go func() {
		line, _ := bufio.NewReader(response.Body).ReadString('\n')
		events <- line
	}()
	select {
	case event := <-events:
		t.Fatalf("%q arrived while watches were frozen", event)
	case <-time.After(100 * time.Millisecond):
	}
	if !p.Frozen() {
		t.Error("Frozen is false")
	}
	p.Thaw()
	if event := <-events; event != "event\n" {
		t.Errorf("got %q after Thaw", event)
	}
}

// streamingList is the request for a streaming list.
const streamingList = "/count?watch=true&sendInitialEvents=true"

// recordCount records /count when it is 0, and makes it 1.
func recordCount(t *testing.T, p *Proxy, client *http.Client) {
	t.Helper()
	response, err := client.Get(p.Config().Host + streamingList)
	must(t, err)
	if response.Body.Close(); response.StatusCode != http.StatusOK {
		t.Errorf("streaming list: status %d", response.StatusCode)
	}
	must(t, p.RecordLists(t.Context()))
	if _, _, err := send(client, http.MethodPost, p.Config().Host+"/a"); err != nil {
		t.Fatal(err)
	}
}

func TestProxy_StaleLists(t *testing.T) {
	_, p, client := start(t)
	recordCount(t, p, client)
	list := func(query, want string) {
		t.Helper()
		if _, body, err := send(client, http.MethodGet, p.Config().Host+"/count"+query); !strings.Contains(body, `"name":"`+want+`"`) || err != nil {
			t.Errorf("listed %q, %v; want %s", body, err, want)
		}
	}
	p.ServeStaleLists()
	list("?resourceVersion=0", "0")
	list("", "1") // a consistent read
	if status, _, err := send(client, http.MethodGet, p.Config().Host+streamingList); status != http.StatusUnprocessableEntity || err != nil {
		t.Errorf("streaming list: status %d, %v, want a rejection", status, err)
	}
	p.Heal()
	list("?resourceVersion=0", "1")
	p.ServeStaleLists("/elsewhere")
	list("?resourceVersion=0", "1")
}

func TestProxy_StaleStreams(t *testing.T) {
	_, p, client := start(t)
	recordCount(t, p, client)
	p.ServeStaleStreams("/count")
	p.Freeze("/count")
	response, err := client.Get(p.Config().Host + streamingList)
	must(t, err)
	defer response.Body.Close()
	events := bufio.NewReader(response.Body)
	for _, want := range []string{
		`{"object":{"apiVersion":"v1","kind":"Count","metadata":{"name":"0"}},"type":"ADDED"}`,
		`{"object":{"apiVersion":"v1","kind":"Count","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"7"}},"type":"BOOKMARK"}`,
	} {
		if event, err := events.ReadString('\n'); strings.TrimSpace(event) != want || err != nil {
			t.Errorf("got event %s, %v, want %s", event, err, want)
		}
	}
	p.Thaw()
	if event, err := events.ReadString('\n'); err != io.EOF {
		t.Errorf("got event %s, %v after Thaw, want the end of the watch", event, err)
	}
}
