// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capi-installer/capi-installer/internal/certificate"
	"github.com/capi-installer/capi-installer/internal/parallel"
)

// Options are settings of Talk. The zero value is usable.
type Options struct {
	// Topology has the objects of requests; nil for ExampleTopology.
	Topology *Topology
	// Settings are the settings of the ExtensionConfig. They are part of every request.
	Settings map[string]string
}

// Transcript is the record of a conversation with a server.
type Transcript struct {
	// Discovery are the calls of the hook Discovery.
	Discovery []Call
	// Handlers are the handlers with a known hook, sorted by hook and name: servers list them in random order.
	Handlers []*Handler
	// Unknown is the answer on a path that no handler has.
	Unknown Answer
	// Connection has the facts about connections.
	Connection Connection
	// Time is the end of the conversation.
	Time time.Time
}

// Handler is a handler of a server, with its calls.
type Handler struct {
	hooksv1.ExtensionHandler
	Hook  Hook
	Calls map[Variant][]Call

	topology *Topology
}

// Call is a request to a handler and its answer.
type Call struct {
	Request []byte
	Answer
}

// Variant is a kind of request to a handler.
type Variant string

// The variants, in the order of the calls.
const (
	// Minimal is a request with only the required fields of the schema.
	Minimal Variant = "a request with required fields only"
	// Full is a request with all fields of the schema.
	Full Variant = "a request with all fields"
	// Real is a request from the objects of a topology.
	Real Variant = "a request from real objects"
	// Again is the same request as Real again.
	Again Variant = "the same request again"
	// UnknownFields is a Real request with fields that no version of Cluster API has.
	UnknownFields Variant = "a request with unknown fields"
	// UnknownSetting is a Real request with a setting that the server does not know.
	UnknownSetting Variant = "a request with an unknown setting"
	// Reordered is a Real request with items and variables in reverse.
	Reordered Variant = "a request in another order"
	// Malformed is a request with invalid JSON.
	Malformed Variant = "a malformed request"
	// Patched is a Real request with templates that have the patches of the answer to Real.
	Patched Variant = "a request with patched templates"
	// Concurrent are Real requests at the same time.
	Concurrent Variant = "concurrent requests"
	// AfterAborted is a Real request after requests that the client has closed.
	AfterAborted Variant = "a request after aborted ones"
)

const (
	// discoveryTimeout is Cluster API's timeout of Discovery.
	discoveryTimeout = 10 * time.Second
	// maxTimeout is the maximum timeout of a handler.
	maxTimeout = 30
	// concurrentCalls is the number of concurrent requests.
	concurrentCalls = 8
)

// Talk calls a server: Discovery first, then each handler with all variants. It returns an error only if the context ends; the rules
// decide about everything else.
func Talk(ctx context.Context, client Client, options Options) (*Transcript, error) {
	if options.Topology == nil {
		options.Topology = ExampleTopology()
	}
	t, err := Discover(ctx, client)
	if err != nil || t.Discovery[0].Err != nil {
		return t, err
	}
	r := &requests{topology: options.Topology, settings: options.Settings}
	t.Handlers = handlersIn(t.Discovery[0], options.Topology)
	for _, h := range inCallOrder(t.Handlers) {
		h.talk(ctx, client, r)
	}
	t.Time = time.Now()
	return t, context.Cause(ctx)
}

func call(ctx context.Context, client Client, path string, request []byte, timeout time.Duration) Call {
	return Call{Request: request, Answer: client.Call(ctx, path, request, timeout)}
}

// Discover calls only the hook Discovery of a server. Check then applies the rules about the server as a whole.
func Discover(ctx context.Context, client Client) (*Transcript, error) {
	t, r := &Transcript{}, &requests{}
	for range 2 {
		t.Discovery = append(t.Discovery, call(ctx, client, discoveryHook().PathOf(""), r.minimal(discoveryHook()).encode(), discoveryTimeout))
	}
	if t.Discovery[0].Err == nil {
		t.Connection = client.Connection(ctx)
		t.Unknown = client.Call(ctx, discoveryHook().PathOf("")+"/handler-of-no-hook", r.minimal(discoveryHook()).encode(), discoveryTimeout)
	}
	t.Time = time.Now()
	return t, context.Cause(ctx)
}

// Unreachable returns the reason why the server cannot be reached; nil if it answers, or if its certificate is the reason.
func (t *Transcript) Unreachable() error {
	if err := t.Discovery[0].Err; err != nil && !certificate.IsRejected(err) && !errors.Is(err, errTimeout) {
		return err
	}
	return nil
}

// handlersIn returns the handlers with a known hook and a valid name of an answer to Discovery.
func handlersIn(c Call, topology *Topology) (handlers []*Handler) {
	var response hooksv1.DiscoveryResponse
	if json.Unmarshal(c.Body, &response) != nil {
		return nil
	}
	for _, h := range response.Handlers {
		hook, known := hookOf(h.RequestHook.APIVersion, h.RequestHook.Hook)
		if known && hook.Name != discovery && len(validation.IsDNS1123Label(h.Name)) == 0 {
			handlers = append(handlers, &Handler{ExtensionHandler: h, Hook: hook, Calls: map[Variant][]Call{}, topology: topology})
		}
	}
	slices.SortStableFunc(handlers, func(a, b *Handler) int {
		return cmp.Or(strings.Compare(a.Hook.Name, b.Hook.Name), strings.Compare(a.Name, b.Name))
	})
	return handlers
}

// inCallOrder returns the handlers in the order of the calls: variables first, because they are part of the requests
// for patches.
func inCallOrder(handlers []*Handler) []*Handler {
	return slices.SortedStableFunc(slices.Values(handlers), func(a, b *Handler) int {
		isFirst := func(h *Handler) int {
			if h.Hook.Name == "DiscoverVariables" {
				return 0
			}
			return 1
		}
		return isFirst(a) - isFirst(b)
	})
}

// timeout is the time that Cluster API waits for the handler.
func (h *Handler) timeout() time.Duration {
	seconds := int32(hooksv1.DefaultHandlersTimeoutSeconds)
	if given := h.TimeoutSeconds; given != nil && *given > 0 && *given <= maxTimeout {
		seconds = *given
	}
	return time.Duration(seconds) * time.Second
}

// Path is the path of requests to the handler.
func (h *Handler) Path() string { return h.Hook.PathOf(h.Name) }

// talk calls the handler with all variants.
func (h *Handler) talk(ctx context.Context, client Client, r *requests) {
	send := func(as Variant, request []byte) {
		h.Calls[as] = append(h.Calls[as], call(ctx, client, h.Path(), request, h.timeout()))
	}
	real := r.real(h.Hook)
	send(Minimal, r.minimal(h.Hook).encode())
	send(Full, r.full(h.Hook).encode())
	send(Real, real.encode())
	send(Again, real.encode())
	if h.Calls[Real][0].Err != nil {
		return // the further requests wait for the same timeout
	}
	send(UnknownFields, real.withUnknownFields().encode())
	send(UnknownSetting, real.withUnknownSetting().encode())
	if _, hasItems := real["items"]; hasItems {
		send(Reordered, real.reordered().encode())
	}
	send(Malformed, []byte("{"))
	h.talkAboutPatches(real, send)
	h.Calls[Concurrent] = parallel.Map(slices.Repeat([]body{real}, concurrentCalls), func(b body) Call {
		return call(ctx, client, h.Path(), b.encode(), h.timeout())
	})
	for _, all := range []bool{false, true} {
		client.Abort(ctx, h.Path(), real.encode(), all)
	}
	send(AfterAborted, real.encode())
	if h.Hook.Name == "DiscoverVariables" {
		r.variables = append(r.variables, h.Calls[Real][0].variables()...)
	}
}

// talkAboutPatches sends templates with the patches of the handler.
func (h *Handler) talkAboutPatches(real body, send func(Variant, []byte)) {
	if h.Hook.Name != "GeneratePatches" {
		return
	}
	if patched, ok := patchedItems(h.Calls[Real][0]); ok {
		send(Patched, real.with("items", patched).encode())
	}
}
