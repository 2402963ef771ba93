// SPDX-License-Identifier: Apache-2.0

package installed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
)

// faultyServer serves one ClusterAPI object, with another generation at each list, and no other objects. Each list of ClusterAPI objects
// after the first one fails with the next code, if it is not 0: a real API server does not do that on demand.
type faultyServer struct {
	failures []int
	lists    int
}

func (s *faultyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if !strings.HasSuffix(r.URL.Path, "/clusterapis") {
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}`)
		return
	}
	s.lists++
	if at := s.lists - 2; at >= 0 && at < len(s.failures) && s.failures[at] != 0 {
		w.WriteHeader(s.failures[at])
		reasons := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable}
		_ = json.NewEncoder(w).Encode(metav1.Status{ // the client can be gone
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(s.failures[at]), Reason: reasons[s.failures[at]], Message: "failed",
		})
		return
	}
	fmt.Fprintf(w, `{"apiVersion": "capi-operator.openshift.io/v1alpha1", "kind": "ClusterAPIList", "metadata": {}, "items": [
		{"apiVersion": "capi-operator.openshift.io/v1alpha1", "kind": "ClusterAPI", "metadata": {"name": "cluster", "generation": %d}}]}`, s.lists)
}

func connected(t *testing.T, server http.Handler) *Cluster {
	t.Helper()
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	cluster, err := Connect(&rest.Config{Host: listening.URL})
	if err != nil {
		t.Fatal(err)
	}
	cluster.Namespace = "openshift-cluster-api-operator"
	return cluster
}

// TestWatch_ReadsAgain fails once: the error is shown, and the watch goes on.
func TestWatch_ReadsAgain(t *testing.T) {
	t.Parallel()
	var seen []int64
	var problems []error
	err := connected(t, &faultyServer{failures: []int{http.StatusServiceUnavailable}}).Watch(t.Context(), func(err error) { problems = append(problems, err) }, func(s rollout.Snapshot) (bool, error) {
		seen = append(seen, s.ClusterAPI.Generation)
		return len(seen) < 2, nil
	})
	if err != nil || fmt.Sprint(seen) != "[1 3]" || len(problems) != 1 {
		t.Errorf("generations %v, problems %v, error %v", seen, problems, err)
	}
}

// TestWatch_EndsWithoutPermission uses a user who loses the permission.
func TestWatch_EndsWithoutPermission(t *testing.T) {
	t.Parallel()
	err := connected(t, &faultyServer{failures: []int{http.StatusForbidden}}).Watch(t.Context(), func(error) {}, func(rollout.Snapshot) (bool, error) { return true, nil })
	failed, is := errors.AsType[*AccessError](err)
	if !is || !failed.Permanent || !strings.Contains(err.Error(), "as in ClusterRole cluster-reader") {
		t.Errorf("got %v", err)
	}
}

func TestWatch_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("interrupted")
	err := connected(t, &faultyServer{}).Watch(ctx, func(error) {}, func(rollout.Snapshot) (bool, error) { cancel(ended); return true, nil })
	if !errors.Is(err, ended) {
		t.Errorf("got %v", err)
	}
}
