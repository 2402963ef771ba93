// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/test/controlplane"
)

// actor is a reporter whose requests the test releases one at a time.
type actor struct {
	controller status.Controller
	reporter   *status.Reporter
	at         time.Time // of its clock

	waiting  chan struct{} // receives when a request waits
	released chan struct{} // lets it proceed
	done     chan error
}

// newActor returns an actor with its own reporter, like another process.
func (w *testCluster) newActor(controller status.Controller) *actor {
	w.Helper()
	a := &actor{controller: controller, at: time.Now(), waiting: make(chan struct{}), released: make(chan struct{}), done: make(chan error, 1)}
	config := rest.CopyConfig(controlplane.Shared(w.T).Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if strings.Contains(request.URL.Path, "/clusterapis/") || strings.Contains(request.URL.Path, "/clusteroperators") {
				a.waiting <- struct{}{}
				<-a.released
			}
			return next.RoundTrip(request)
		})
	})
	own, err := client.New(config, client.Options{Scheme: w.Scheme(), Mapper: w.RESTMapper()})
	w.must(err)
	a.reporter = &status.Reporter{Client: own, Live: own, Now: func() time.Time { return a.at }}
	return a
}

// start reports an outcome in the background, so long after the last one that no write is postponed. read is the
// ClusterAPI object at the start of the reconcile.
func (a *actor) start(read *v1alpha1.ClusterAPI, outcome status.Outcome) {
	a.at = a.at.Add(time.Minute)
	go func() {
		_, err := a.reporter.Report(context.Background(), read, a.controller, outcome, nil)
		a.done <- err
	}()
}

// step releases one request of the actor, and returns false when it has finished.
func (a *actor) step(t *testing.T) bool {
	t.Helper()
	select {
	case <-a.waiting:
		a.released <- struct{}{}
		return true
	case err := <-a.done:
		if err != nil {
			t.Error(err)
		}
		return false
	}
}

// Guarantee: the ClusterAPI object and the ClusterOperator agree when both controllers
// have reported, in every interleaving of the first requests of two reporters. During a
// rollout they start from the ClusterOperator that they know, and from a ClusterAPI object
// that they read before the other one wrote; otherwise they read both.
func TestReporter_TwoReportersAgree(t *testing.T) {
	prefix := 6 // requests whose order is enumerated; then the last actor finishes first
	if os.Getenv("E2E") == "full" {
		prefix = 10
	}
	for _, reason := range []reason.Reason{reason.RollingOut, reason.AsExpected} {
		t.Run(string(reason), func(t *testing.T) {
			w := newTestCluster(t)
			actors := []*actor{w.newActor(status.Version), w.newActor(status.Installer)}
			for schedule := range 1 << prefix {
				read := w.clusterAPI()
				for _, a := range actors {
					a.start(read, status.Outcome{Reason: reason, Message: fmt.Sprintf("%s reports number %d", a.controller, schedule)})
				}
				interleave(t, actors, schedule, prefix)
				if written := fmt.Sprint(w.clusterAPI().Status.Conditions); !strings.Contains(written, fmt.Sprint("number ", schedule)) {
					t.Fatalf("schedule %0*b: no report was written: %s", prefix, schedule, written)
				}
				if diff := w.disagreement(); diff != "" {
					t.Fatalf("schedule %0*b: the ClusterOperator (+) differs from the ClusterAPI object (-):\n%s", prefix, schedule, diff)
				}
			}
		})
	}
}

// interleave releases the requests of two actors in the order of the bits of a schedule until both have finished.
func interleave(t *testing.T, actors []*actor, schedule, prefix int) {
	t.Helper()
	running := []bool{true, true}
	for turn := 0; running[0] || running[1]; turn++ {
		next := schedule >> min(turn, prefix-1) & 1
		if !running[next] {
			next = 1 - next
		}
		running[next] = actors[next].step(t)
	}
}

func (w *testCluster) clusterAPI() *v1alpha1.ClusterAPI {
	w.Helper()
	cluster := &v1alpha1.ClusterAPI{}
	w.must(w.Get(w.Context(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster))
	return cluster
}

// disagreement compares the conditions of both status objects.
func (w *testCluster) disagreement() string {
	w.Helper()
	operator := &configv1.ClusterOperator{}
	w.must(w.Get(w.Context(), client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator))
	want, got := map[string]string{}, map[string]string{}
	for _, c := range w.clusterAPI().Status.Conditions {
		want[c.Type] = string(c.Status) + " " + c.Reason + " " + c.Message
	}
	for _, c := range operator.Status.Conditions {
		got[string(c.Type)] = string(c.Status) + " " + c.Reason + " " + c.Message
	}
	return cmp.Diff(want, got)
}
