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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/test/controlplane"
)

// actor is a process whose requests about status objects the test releases one at a time.
type actor struct {
	client.Client

	waiting  chan struct{} // receives when a request waits
	released chan struct{} // lets it proceed
	done     chan error
}

// newActor returns an actor with its own client.
func (w *testCluster) newActor() *actor {
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
	var err error
	a.Client, err = client.New(config, client.Options{Scheme: w.Scheme(), Mapper: w.RESTMapper()})
	w.must(err)
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

// Guarantee: when both controllers have reported, and the event about the last write of either status object has caused a reconcile, the
// ClusterAPI object has the outcomes of both and the ClusterOperator agrees with it, in every interleaving of the first requests of both
// controllers, of the reconciler of the ClusterOperator, and of one in another process.
func TestReporter_TwoReportersAgree(t *testing.T) {
	prefix := 3 // requests whose order is enumerated; then the actors finish one after the other
	if os.Getenv("E2E") == "full" {
		prefix = 6
	}
	w := newTestCluster(t)
	controllers := []status.Controller{status.Version, status.Installer}
	actors := []*actor{w.newActor(), w.newActor(), w.newActor(), w.newActor()}
	w.reconcileOperator()
	at, schedules := time.Now(), 1
	for range prefix {
		schedules *= len(actors)
	}
	for schedule := range schedules {
		read := w.clusterAPI()
		at = at.Add(time.Minute) // so long after the last one that no write is postponed
		for i, a := range actors {
			if i < len(controllers) {
				outcome := status.Outcome{Reason: reason.RollingOut, Message: fmt.Sprintf("%s reports number %d", controllers[i], schedule)}
				reporter := &status.Reporter{Controller: controllers[i], Client: a, Live: a, Now: func() time.Time { return at }}
				go func() {
					_, err := reporter.Report(context.Background(), read, outcome)
					a.done <- err
				}()
				continue
			}
			go func() {
				_, err := (&status.OperatorReconciler{Client: a, Live: a}).Reconcile(context.Background(), reconcile.Request{})
				a.done <- err
			}()
		}
		interleave(t, actors, schedule, prefix)
		w.reconcileOperator()
		for _, controller := range controllers {
			if written := fmt.Sprint(w.clusterAPI().Status.Conditions); !strings.Contains(written, fmt.Sprintf("%s reports number %d", controller, schedule)) {
				t.Fatalf("schedule %d: the report of %s is lost: %s", schedule, controller, written)
			}
		}
		if diff := w.disagreement(); diff != "" {
			t.Fatalf("schedule %d: the ClusterOperator (+) differs from the ClusterAPI object (-):\n%s", schedule, diff)
		}
	}
}

// reconcileOperator reconciles the ClusterOperator.
func (w *testCluster) reconcileOperator() {
	w.Helper()
	_, err := (&status.OperatorReconciler{Client: w, Live: w}).Reconcile(w.Context(), reconcile.Request{})
	w.must(err)
}

// interleave releases the requests of actors in the order of the digits of a schedule until all have finished.
func interleave(t *testing.T, actors []*actor, schedule, prefix int) {
	t.Helper()
	running := map[int]bool{}
	for i := range actors {
		running[i] = true
	}
	for turn := 0; len(running) > 0; turn++ {
		next := schedule % len(actors)
		if turn < prefix {
			schedule /= len(actors)
		}
		for !running[next] {
			next = (next + 1) % len(actors)
		}
		if !actors[next].step(t) {
			delete(running, next)
		}
	}
}

func (w *testCluster) clusterAPI() *v1alpha1.ClusterAPI {
	w.Helper()
	cluster := &v1alpha1.ClusterAPI{}
	w.must(w.Get(w.Context(), client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster))
	return cluster
}

func (w *testCluster) clusterOperator() *configv1.ClusterOperator {
	w.Helper()
	operator := &configv1.ClusterOperator{}
	w.must(w.Get(w.Context(), client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator))
	return operator
}

// disagreement compares the conditions of both status objects.
func (w *testCluster) disagreement() string {
	w.Helper()
	operator, want, got := w.clusterOperator(), map[string]string{}, map[string]string{}
	for _, c := range w.clusterAPI().Status.Conditions {
		want[c.Type] = string(c.Status) + " " + c.Reason + " " + c.Message
	}
	for _, c := range operator.Status.Conditions {
		got[string(c.Type)] = string(c.Status) + " " + c.Reason + " " + c.Message
	}
	return cmp.Diff(want, got)
}
