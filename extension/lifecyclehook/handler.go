// SPDX-License-Identifier: Apache-2.0

package lifecyclehook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Handler answers the requests of Cluster API. If the state cannot be read, Clusters continue.
type Handler struct {
	// State reads the input of a decision.
	State func(context.Context) (State, error)
	// Limit is the limit of the time that a version delays Clusters.
	Limit time.Duration
	// Exceeded is called with each answer that lets a Cluster continue despite a blocker.
	Exceeded func(context.Context, State, Blocker)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// maxRequest is the largest accepted request in bytes: a Cluster (the API server accepts up to 3 MiB) and settings.
const maxRequest = 4 << 20

// blockingResponse is the response of every blocking hook.
type blockingResponse struct {
	metav1.TypeMeta             `json:",inline"`
	hooksv1.CommonRetryResponse `json:",inline"`
}

// ReadyPath is the path of the readiness probe.
const ReadyPath = "/readyz"

// Routes returns the handlers of all paths.
func (h *Handler) Routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ReadyPath, func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST "+path(discovery, ""), answer(discovery, h.discover))
	for _, served := range hooks {
		mux.HandleFunc("POST "+path(served.name, served.handler), answer(served.name, h.decide))
	}
	return mux
}

// answer decodes a request of a hook and encodes the response. Only the kind of the request has an effect: the answer is
// the same for all Clusters.
func answer(hook string, respond func(context.Context, metav1.TypeMeta) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request metav1.TypeMeta
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&request); err != nil {
			http.Error(w, fmt.Sprintf("invalid request: %v", err), http.StatusBadRequest)
			return
		}
		if request.Kind != hook+"Request" || request.APIVersion != hooksv1.GroupVersion.String() {
			http.Error(w, fmt.Sprintf("invalid request %s %s: want %s %sRequest", request.APIVersion, request.Kind, hooksv1.GroupVersion, hook), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(respond(r.Context(), metav1.TypeMeta{APIVersion: request.APIVersion, Kind: hook + "Response"})) // the client is gone
	}
}

// discover lists the handlers that the installed version of Cluster API knows.
func (h *Handler) discover(ctx context.Context, kind metav1.TypeMeta) any {
	response := &hooksv1.DiscoveryResponse{TypeMeta: kind}
	state, err := h.State(ctx)
	if err != nil {
		response.Status, response.Message = hooksv1.ResponseStatusFailure, "the state of the installer cannot be read"
		log.FromContext(ctx).Error(err, "Answering a discovery request failed")
		return response
	}
	response.Status, response.Handlers = hooksv1.ResponseStatusSuccess, discovered(coreSeries(state.Cluster))
	return response
}

// decide answers a blocking hook.
func (h *Handler) decide(ctx context.Context, kind metav1.TypeMeta) any {
	response := &blockingResponse{TypeMeta: kind}
	response.Status = hooksv1.ResponseStatusSuccess
	state, err := h.State(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "Reading the state failed; letting a Cluster continue", "response", kind.Kind)
		return response
	}
	blocker := state.blocker()
	if blocker == nil {
		return response
	}
	wait := blocker.wait(h.now(), h.Limit)
	if wait == 0 {
		h.Exceeded(ctx, state, *blocker)
		return response
	}
	response.Message, response.RetryAfterSeconds = "waiting: "+blocker.String(), seconds(wait)
	return response
}

func (h *Handler) now() time.Time {
	if h.Now != nil {
		return h.Now()
	}
	return time.Now()
}

// seconds rounds a duration up.
func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) } //nolint:gosec // at most retryInterval
