// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"slices"
	"strings"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capi-installer/capi-installer/build/contract"
)

// The rules that are checked also if a handler does not answer.
const (
	ruleCallAnswer = "call/answer"
	ruleTimeout    = "call/timeout"
)

// callRules are the rules of the theme "call": about the answers of every handler.
var callRules = []Rule{{
	Rule: contract.Rule{
		ID:       ruleCallAnswer,
		Severity: contract.Error,
		Source:   proposal("Runtime SDK rules"),
		Why:      "Cluster API can read only an answer with status 200 and the response of the hook as JSON. Otherwise the failure policy decides: with Fail the Cluster waits.",
		Fix:      "Answer POST requests to the path of the handler, also without Content-Type and with optional fields unset, with status 200, and report errors with status Failure in the response.",
	},
	Handler: func(h *Handler) (found []Problem) {
		variants, calls := h.readable()
		for i, c := range calls {
			as, err := newCatalog().NewResponse(h.Hook.gvh())
			if err != nil {
				continue // all hooks are in the catalog
			}
			found = append(found, in(variants[i], c.answerProblems(as))...)
		}
		return found
	},
}, {
	Rule: contract.Rule{
		ID:       ruleTimeout,
		Severity: contract.Error,
		Source:   general("Timeouts"),
		Why:      "Cluster API stops waiting after the timeout of the handler and treats the call as failed.",
		Fix:      "Answer within timeoutSeconds, and work in the background.",
	},
	Handler: func(h *Handler) (found []Problem) {
		for v, calls := range h.Calls {
			if slices.ContainsFunc(calls, func(c Call) bool { return errors.Is(c.Err, errTimeout) }) {
				found = append(found, in(v, problems("", "no answer within %s", h.timeout()))...)
			}
		}
		return sorted(found)
	},
}, {
	Rule: contract.Rule{
		ID:       "call/response-kind",
		Severity: contract.Warning,
		Source:   proposal("Runtime SDK rules"),
		Why:      "The kind tells people and proxies what an answer is. Cluster API ignores it, so that a server can leave it out, but a wrong one hints at an answer for another request.",
		Fix:      "Set apiVersion and kind as in the response of the OpenAPI document, or leave both out.",
	},
	Handler: func(h *Handler) []Problem { return h.first(Real).kindProblems(h.Hook) },
}, {
	Rule: contract.Rule{
		ID:       "call/status",
		Severity: contract.Error,
		Source:   proposal("Discovery hook"),
		Why:      "Cluster API treats an answer without the status Success or Failure as an error.",
		Fix:      "Set status to Success or Failure, in this spelling.",
	},
	Handler: eachReadable(func(r response) []Problem {
		if r.Status == hooksv1.ResponseStatusSuccess || r.Status == hooksv1.ResponseStatusFailure {
			return nil
		}
		return problems("status", "invalid status %q: want Success or Failure", r.Status)
	}),
}, {
	Rule: contract.Rule{
		ID:       "call/failure",
		Severity: contract.Info,
		Source:   general("Error management"),
		Why:      "The server answers Failure to a request from the objects of the test. That is right if they violate a rule of the extension or lack a setting; then the other checks say little.",
		Fix:      "Test with objects and settings that the extension accepts: --topology and --setting. Create objects that it reads in its API server.",
	},
	Handler: func(h *Handler) []Problem {
		if r, ok := h.first(Real).read(); ok && r.Status == hooksv1.ResponseStatusFailure {
			return problems("status", "%s", strings.TrimSuffix("Failure: "+r.Message, ": "))
		}
		return nil
	},
}, {
	Rule: contract.Rule{
		ID:       "call/failure-message",
		Severity: contract.Warning,
		Source:   proposal("Discovery hook"),
		Why:      "The message of a failure is in a condition of the Cluster: it is all that the user sees.",
		Fix:      "Set message to the cause and the next step.",
	},
	Handler: eachReadable(func(r response) []Problem {
		if r.Status == hooksv1.ResponseStatusFailure && r.Message == "" {
			return problems("message", "a Failure has no message")
		}
		return nil
	}),
}, {
	Rule: contract.Rule{
		ID:       "call/required-fields",
		Severity: contract.Warning,
		Source:   proposal("Runtime SDK rules"),
		Why:      "The response is part of the definition of a hook. Cluster API reads a missing field as its zero value; another version may not do so.",
		Fix:      "Set all fields that the OpenAPI document requires; \"capi-manifests extension hooks HOOK -o openapi\" writes it.",
	},
	Handler: schemaProblems(missingField),
}, {
	Rule: contract.Rule{
		ID:       "call/unknown-response-fields",
		Severity: contract.Warning,
		Source:   proposal("Runtime SDK rules"),
		Why:      "Cluster API silently drops fields that the response does not have, such as misspelled ones.",
		Fix:      "Use the fields of the OpenAPI document; \"capi-manifests extension hooks HOOK -o openapi\" writes it.",
	},
	Handler: schemaProblems(unknownResponseField),
}, {
	Rule: contract.Rule{
		ID:       "call/retry-not-blocking",
		Severity: contract.Error,
		Source:   general("Blocking Hooks"),
		Why:      "Only blocking hooks can delay Cluster API. It ignores retryAfterSeconds of the others and continues.",
		Fix:      "Remove retryAfterSeconds, or use a blocking hook of \"capi-manifests extension hooks\".",
	},
	Of: func(h Hook) bool { return !h.Blocking },
	Handler: eachReadable(func(r response) []Problem {
		if r.RetryAfterSeconds != nil {
			return problems("retryAfterSeconds", "retryAfterSeconds in the response of a hook that does not block")
		}
		return nil
	}),
}, {
	Rule: contract.Rule{
		ID:       "call/retry-positive",
		Severity: contract.Error,
		Source:   general("Blocking Hooks"),
		Why:      "Every value except 0 blocks, also a negative one, but Cluster API requeues the Cluster only after a positive time.",
		Fix:      "Set retryAfterSeconds to 0 to continue, or to a positive number of seconds.",
	},
	Of: func(h Hook) bool { return h.Blocking },
	Handler: eachReadable(func(r response) []Problem {
		if r.RetryAfterSeconds != nil && *r.RetryAfterSeconds < 0 {
			return problems("retryAfterSeconds", "invalid retryAfterSeconds %d: want 0 or more", *r.RetryAfterSeconds)
		}
		return nil
	}),
}, {
	Rule: contract.Rule{
		ID:       "call/retry-or-failure",
		Severity: contract.Warning,
		Source:   book("implement-lifecycle-hooks", "Definitions"),
		Why:      "A Failure is an error, with an exponential backoff. Cluster API ignores its retryAfterSeconds.",
		Fix:      "To block, answer Success with retryAfterSeconds and a message.",
	},
	Of: func(h Hook) bool { return h.Blocking },
	Handler: eachReadable(func(r response) []Problem {
		if r.Status == hooksv1.ResponseStatusFailure && r.RetryAfterSeconds != nil && *r.RetryAfterSeconds != 0 {
			return problems("retryAfterSeconds", "a Failure with retryAfterSeconds %d", *r.RetryAfterSeconds)
		}
		return nil
	}),
}, {
	Rule: contract.Rule{
		ID:       "call/retry-message",
		Severity: contract.Warning,
		Source:   general("Blocking Hooks"),
		Why:      "While a hook blocks, its message is in a condition of the Cluster. Without it the user does not know the reason.",
		Fix:      "Set message to the reason for waiting.",
	},
	Of: func(h Hook) bool { return h.Blocking },
	Handler: eachReadable(func(r response) []Problem {
		if r.Status == hooksv1.ResponseStatusSuccess && r.RetryAfterSeconds != nil && *r.RetryAfterSeconds > 0 && r.Message == "" {
			return problems("message", "the answer blocks without a message")
		}
		return nil
	}),
}, {
	Rule: contract.Rule{
		ID:       "call/idempotent",
		Severity: contract.Error,
		Source:   general("Idempotence"),
		Why:      "Cluster API calls a handler again after it succeeded, for example because another extension for the same hook blocks. If it then fails, the Cluster waits forever.",
		Fix:      "Check the current state, and succeed if there is nothing left to do.",
	},
	Handler: func(h *Handler) []Problem {
		if h.first(Real).succeeded() && !h.first(Again).succeeded() {
			r, _ := h.first(Again).read()
			return problems("status", "%s is answered with %q (message %q) after Success", Again, r.Status, r.Message)
		}
		return nil
	},
}, {
	Rule: contract.Rule{
		ID:       "call/deterministic",
		Severity: contract.Warning,
		Source:   general("Deterministic result"),
		Why:      "The same request should have the same answer. Otherwise Clusters change without a reason, and their conditions with each message. This triggers further reconciles.",
		Fix:      "Derive the answer from the request only, without time stamps, counters, random values and the order of maps. The message of a blocking hook may name the progress.",
	},
	Handler: func(h *Handler) []Problem {
		first, again := h.first(Real).object(), h.first(Again).object()
		if first == nil || again == nil {
			return nil
		}
		// patches/deterministic compares variables and the results of patches; operations can have another order.
		others := []string{"retryAfterSeconds", "status", "items", "variables"}
		if h.Hook.Blocking && h.proceeds() {
			others = append(others, "message")
		}
		return differences(first, again, "%s is different in the answer to the same request", others...)
	},
}, {
	Rule: contract.Rule{
		ID:       "call/unknown-fields",
		Severity: contract.Error,
		Source:   proposal("Runtime SDK rules"),
		Why:      "A later release of Cluster API can add fields to the requests of a version. A server that rejects them breaks with the upgrade.",
		Fix:      "Ignore unknown fields of requests and of the objects in them.",
	},
	Handler: sameStatus(UnknownFields),
}, {
	Rule: contract.Rule{
		ID:       "call/settings",
		Severity: contract.Error,
		Source:   general("Settings"),
		Why:      "Every request has the settings of the ExtensionConfig. An administrator can set them before the server knows them.",
		Fix:      "Accept settings in every request, and ignore unknown ones.",
	},
	Handler: sameStatus(UnknownSetting),
}, {
	Rule: contract.Rule{
		ID:       "call/malformed",
		Severity: contract.Warning,
		Source:   general("Availability"),
		Why:      "A server that answers Success to a request that it cannot read lets Clusters continue without its work.",
		Fix:      "Answer an unreadable request with status 400, or with a Failure.",
	},
	Handler: func(h *Handler) []Problem {
		if h.first(Malformed).succeeded() {
			return problems("status", "Success in the answer to invalid JSON")
		}
		return nil
	},
}, {
	Rule: contract.Rule{
		ID:       "call/concurrent",
		Severity: contract.Error,
		Source:   general("Availability"),
		Why:      "Cluster API reconciles several Clusters at the same time and calls handlers concurrently.",
		Fix:      "Protect shared state of the server.",
	},
	Handler: func(h *Handler) []Problem {
		if !h.first(Real).succeeded() {
			return nil
		}
		failed := 0
		for _, c := range h.Calls[Concurrent] {
			if !c.succeeded() {
				failed++
			}
		}
		if failed == 0 {
			return nil
		}
		return problems("status", "%d of %d concurrent requests do not succeed, which each alone does", failed, len(h.Calls[Concurrent]))
	},
}, {
	Rule: contract.Rule{
		ID:       "call/aborted",
		Severity: contract.Error,
		Source:   general("Availability"),
		Why:      "Cluster API closes a request after its timeout, or when it restarts. The server has to answer the next one.",
		Fix:      "Handle the end of the request's context, and release locks then.",
	},
	Handler: sameStatus(AfterAborted),
}, {
	Rule: contract.Rule{
		ID:       "call/slow",
		Severity: contract.Warning,
		Source:   topology("Patch extension guidelines"),
		Why:      "Cluster API calls these hooks at every reconcile of a Cluster with topology, and waits for the answer.",
		Fix:      "Answer within 200 ms.",
	},
	Of: is("GeneratePatches", "ValidateTopology"),
	Handler: func(h *Handler) []Problem {
		took := min(h.first(Real).Took, h.first(Again).Took)
		if h.first(Real).Err != nil || took <= slow {
			return nil
		}
		return problems("", "the answer takes %s", took.Round(10*time.Millisecond))
	},
}}

// slow is the time limit for hooks of every reconcile.
const slow = 200 * time.Millisecond

// in adds the request to the messages of problems.
func in(v Variant, found []Problem) []Problem {
	for i := range found {
		found[i].Message = string(v) + ": " + found[i].Message
	}
	return found
}

func sorted(found []Problem) []Problem {
	slices.SortFunc(found, func(a, b Problem) int {
		return slices.Compare([]string{a.Field, a.Message}, []string{b.Field, b.Message})
	})
	return found
}

// eachReadable makes a check of a handler of a check of an answer.
func eachReadable(check func(response) []Problem) func(*Handler) []Problem {
	return func(h *Handler) []Problem {
		variants, calls := h.readable()
		for i := len(calls) - 1; i >= 0; i-- { // one finding, about the most realistic request
			if r, ok := calls[i].read(); ok {
				if found := check(r); len(found) > 0 {
					return in(variants[i], found)
				}
			}
		}
		return nil
	}
}

// proceeds reports whether the messages of a handler can differ because its work proceeds, as in an update in place: then the first
// message does not come again, and the last answers have few messages. Counters and time stamps have many.
func (h *Handler) proceeds() bool {
	first, _ := h.first(Real).read()
	last := slices.Concat(h.Calls[Concurrent], h.Calls[AfterAborted])
	messages := map[string]bool{}
	for _, c := range last {
		r, _ := c.read()
		messages[r.Message] = true
	}
	return !messages[first.Message] && len(messages) <= len(last)/2
}

// sameStatus makes a check that a variant succeeds if the real request does.
func sameStatus(v Variant) func(*Handler) []Problem {
	return func(h *Handler) []Problem {
		answer := h.first(v)
		if !h.first(Real).succeeded() || answer.succeeded() {
			return nil
		}
		if r, ok := answer.read(); ok {
			return in(v, problems("status", "%q (message %q) instead of Success", r.Status, r.Message))
		}
		if answer.Err != nil {
			return in(v, problems("", "no answer: %v", answer.Err))
		}
		return in(v, problems("", "status %d: %s", answer.Status, excerpt(answer.Body)))
	}
}
