// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"net/http"
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
