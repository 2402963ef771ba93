// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capi-installer/capi-installer/internal/text"
)

// response has the fields that all responses have.
type response struct {
	APIVersion        string                 `json:"apiVersion"`
	Kind              string                 `json:"kind"`
	Status            hooksv1.ResponseStatus `json:"status"`
	Message           string                 `json:"message"`
	RetryAfterSeconds *int32                 `json:"retryAfterSeconds"`
}

// read returns the fields that all responses have; false if the answer is unreadable.
func (a Answer) read() (r response, ok bool) {
	ok = a.Err == nil && a.Status == http.StatusOK && json.Unmarshal(a.Body, &r) == nil
	return r, ok
}

// object returns the answer as decoded JSON; nil if it is unreadable.
func (a Answer) object() map[string]any {
	var object map[string]any
	if a.Err != nil || a.Status != http.StatusOK || json.Unmarshal(a.Body, &object) != nil {
		return nil
	}
	return object
}

// succeeded reports whether the answer is readable with the status Success.
func (a Answer) succeeded() bool {
	r, ok := a.read()
	return ok && r.Status == hooksv1.ResponseStatusSuccess
}

// answerProblems returns the reasons why Cluster API cannot read an answer as a response.
func (a Answer) answerProblems(as any) []Problem {
	switch {
	case errors.Is(a.Err, errTimeout):
		return nil // the rule about timeouts
	case a.Err != nil:
		return problems("", "no answer: %v", a.Err)
	case a.Status != http.StatusOK:
		return problems("", "status %d instead of 200: %s", a.Status, excerpt(a.Body))
	case len(a.Body) > maxAnswer:
		return problems("", "the answer has more than %d MiB", maxAnswer>>20)
	}
	if err := json.Unmarshal(a.Body, as); err != nil {
		return problems("", "the answer is not a valid response: %v: %s", err, excerpt(a.Body))
	}
	return nil
}

// excerpt is the beginning of an answer.
func excerpt(content []byte) string {
	return text.Truncate(strings.Join(strings.Fields(string(content)), " "), 200)
}

// kindProblems returns a problem if the answer has another kind than the response of the hook.
func (a Answer) kindProblems(h Hook) []Problem {
	r, ok := a.read()
	switch {
	case !ok:
	case r.Kind != "" && r.Kind != h.Response:
		return problems("kind", "invalid kind %q: want %s", r.Kind, h.Response)
	case r.APIVersion != "" && r.APIVersion != h.APIVersion():
		return problems("apiVersion", "invalid apiVersion %q: want %s", r.APIVersion, h.APIVersion())
	}
	return nil
}

// readable are the first answers to the requests that a correct server accepts, by variant in the order of the calls.
func (h *Handler) readable() (variants []Variant, calls []Call) {
	for _, v := range []Variant{Minimal, Full, Real} {
		if len(h.Calls[v]) > 0 {
			variants, calls = append(variants, v), append(calls, h.Calls[v][0])
		}
	}
	return variants, calls
}

// first returns the first call of a variant; without any, a call without an answer.
func (h *Handler) first(v Variant) Call {
	if len(h.Calls[v]) == 0 {
		return Call{Answer: Answer{Err: errNotCalled}}
	}
	return h.Calls[v][0]
}

var errNotCalled = errors.New("not called")
