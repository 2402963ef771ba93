// SPDX-License-Identifier: Apache-2.0

package status_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/test/controlplane"
)

// actor is a reporter whose requests the test releases one at a time.
type actor struct {
	waiting  chan struct{} // receives when a request waits
	released chan struct{} // lets it proceed
	done     chan error
}

// startActor reports an outcome in the background, with its own reporter, like
// another process.
func (w *testCluster) startActor(controller status.Controller, outcome status.Outcome) *actor {
	w.Helper()
	a := &actor{waiting: make(chan struct{}), released: make(chan struct{}), done: make(chan error, 1)}
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
	reporter := &status.Reporter{Client: own, Live: own}
	go func() {
		_, err := reporter.Report(context.Background(), nil, controller, outcome, nil)
		a.done <- err
	}()
	return a
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
// have reported, in every interleaving of the requests of two reporters.
func TestReporter_TwoReportersAgree(t *testing.T) {
	w := newTestCluster(t)
	const prefix = 6 // requests whose order is enumerated; then the last actor finishes first
	for schedule := range 1 << prefix {
		reason := []status.Reason{status.RollingOut, status.AsExpected}[schedule%2]
		actors := []*actor{
			w.startActor(status.Version, status.Outcome{Reason: reason, Message: "version"}),
			w.startActor(status.Installer, status.Outcome{Reason: reason, Message: "installer"}),
		}
		running := []bool{true, true}
		for turn := 0; running[0] || running[1]; turn++ {
			next := schedule >> min(turn, prefix-1) & 1
			if !running[next] {
				next = 1 - next
			}
			running[next] = actors[next].step(t)
		}
		cluster, operator := &v1alpha1.ClusterAPI{}, &configv1.ClusterOperator{}
		w.must(w.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster))
		w.must(w.Get(t.Context(), client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator))
		want, got := map[string]string{}, map[string]string{}
		for _, c := range cluster.Status.Conditions {
			want[c.Type] = string(c.Status) + " " + c.Reason + " " + c.Message
		}
		for _, c := range operator.Status.Conditions {
			got[string(c.Type)] = string(c.Status) + " " + c.Reason + " " + c.Message
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("schedule %06b: the ClusterOperator (+) differs from the ClusterAPI object (-):\n%s", schedule, diff)
		}
	}
}
