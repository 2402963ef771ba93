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
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
)

// faultyServer serves one ClusterAPI object and no other objects. Its watches fail as scripted:
// a real API server does not do that on demand.
type faultyServer struct {
	mu sync.Mutex
	// generation is the generation of the ClusterAPI object.
	generation int
	// watch responds to watches of ClusterAPI objects.
	watch http.HandlerFunc
	lists int
}

func (s *faultyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	clusterAPI := strings.HasSuffix(r.URL.Path, "/clusterapis")
	switch {
	case r.URL.Query().Get("sendInitialEvents") != "": // as an API server without streaming lists
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
	case r.URL.Query().Get("watch") != "" && clusterAPI:
		s.watch(w, r)
	case r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case clusterAPI:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lists++
		fmt.Fprintf(w, `{"apiVersion": "capi-operator.openshift.io/v1alpha1", "kind": "ClusterAPIList", "metadata": {"resourceVersion": "%d"}, "items": [
			{"apiVersion": "capi-operator.openshift.io/v1alpha1", "kind": "ClusterAPI", "metadata": {"name": "cluster", "resourceVersion": "%d", "generation": %d}}]}`, s.lists, s.lists, s.generation)
	case strings.HasSuffix(r.URL.Path, "/events"):
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "EventList", "metadata": {"resourceVersion": "1"}, "items": []}`)
	default:
		fmt.Fprint(w, `{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {"resourceVersion": "1"}, "items": []}`)
	}
}

// setGeneration changes the object.
func (s *faultyServer) setGeneration(generation int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation = generation
}

// fail writes a failure as the API server does.
func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the client can be gone
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: string(reason),
	})
}

func connected(t *testing.T, server http.Handler) *Cluster {
	t.Helper()
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	t.Cleanup(listening.CloseClientConnections)
	cluster, err := Connect(&rest.Config{Host: listening.URL})
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// TestWatch_ListsAgainAfterExpiry changes the object while its watch has expired, so that only a list shows the change.
func TestWatch_ListsAgainAfterExpiry(t *testing.T) {
	for name, watch := range map[string]http.HandlerFunc{
		"expired": func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusGone, metav1.StatusReasonExpired) },
		"unavailable": func(w http.ResponseWriter, _ *http.Request) {
			fail(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			server := &faultyServer{generation: 1}
			server.watch = func(w http.ResponseWriter, r *http.Request) { server.setGeneration(2); watch(w, r) }
			var seen []int64
			err := connected(t, server).Watch(ctx, func(error) {}, func(s rollout.Snapshot) (bool, error) {
				seen = append(seen, s.ClusterAPI.Generation)
				return s.ClusterAPI.Generation < 2, nil
			})
			if err != nil || len(seen) < 2 || seen[0] != 1 {
				t.Errorf("generations %v, error %v", seen, err)
			}
		})
	}
}

// TestWatch_EndsWithoutPermission uses a user with the permission to list but not to watch.
func TestWatch_EndsWithoutPermission(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	server := &faultyServer{generation: 1, watch: func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	}}
	err := connected(t, server).Watch(ctx, func(error) {}, func(rollout.Snapshot) (bool, error) { return true, nil })
	failed, is := errors.AsType[*AccessError](err)
	if !is || !failed.Permanent || !strings.Contains(err.Error(), "as in ClusterRole cluster-reader") {
		t.Errorf("got %v", err)
	}
}

func TestWatch_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("interrupted")
	server := &faultyServer{generation: 1, watch: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	err := connected(t, server).Watch(ctx, func(error) {}, func(rollout.Snapshot) (bool, error) { cancel(ended); return true, nil })
	if !errors.Is(err, ended) {
		t.Errorf("got %v", err)
	}
}

func TestConnect_SendsNoWrite(t *testing.T) {
	cluster := connected(t, &faultyServer{})
	err := cluster.objects.Resource(clusterAPIs).Delete(t.Context(), "cluster", metav1.DeleteOptions{})
	if !errors.Is(err, errWrites) {
		t.Errorf("got %v", err)
	}
}
