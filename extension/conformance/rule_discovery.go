// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/certificate"
)

// ruleAnswer is the rule about the answer to Discovery.
const ruleAnswer = "discovery/answer"

// discoveryRules are the rules of the theme "discovery".
var discoveryRules = []Rule{{
	Rule: contract.Rule{
		ID:       ruleAnswer,
		Severity: contract.Error,
		Source:   proposal("Discovery hook"),
		Why:      "Every server must implement the hook Discovery. Without its answer Cluster API does not know the handlers, and the ExtensionConfig has the condition Discovered=False.",
		Fix:      "Answer POST requests to " + "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery with status 200 and a DiscoveryResponse as JSON within 10 seconds. Cluster API sends no Content-Type, adds the query parameter timeout, and follows no redirects.",
	},
	Server: func(t *Transcript) []Problem {
		if certificate.IsRejected(t.Discovery[0].Err) {
			return nil // connection/certificate
		}
		return t.Discovery[0].answerProblems(&hooksv1.DiscoveryResponse{})
	},
}, {
	Rule: contract.Rule{
		ID:       "discovery/status",
		Severity: contract.Error,
		Source:   proposal("Discovery hook"),
		Why:      "Cluster API rejects the answer unless its status is Success.",
		Fix:      "Set status to Success.",
	},
	Server: func(t *Transcript) []Problem {
		if response, ok := t.discovered(); ok && response.Status != hooksv1.ResponseStatusSuccess {
			return problems("status", "invalid status %q (message %q): want Success", response.Status, response.Message)
		}
		return nil
	},
}, {
	Rule: contract.Rule{
		ID:       "discovery/response-kind",
		Severity: contract.Warning,
		Source:   proposal("Discovery hook"),
		Why:      "The kind tells people and proxies what an answer is. Cluster API ignores it, so that a server can leave it out, but a wrong one hints at an answer for another request.",
		Fix:      "Set apiVersion and kind as in the response of the OpenAPI document, or leave both out.",
	},
	Server: func(t *Transcript) []Problem { return t.Discovery[0].kindProblems(discoveryHook()) },
}, {
	Rule: contract.Rule{
		ID:       "discovery/handlers",
		Severity: contract.Warning,
		Source:   proposal("Discovery hook"),
		Why:      "Cluster API calls only the handlers in the answer. Without any the server has no effect.",
		Fix:      "List the handlers of the server.",
	},
	Server: func(t *Transcript) []Problem {
		if response, ok := t.discovered(); ok && len(response.Handlers) == 0 {
			return problems("handlers", "the server has no handlers")
		}
		return nil
	},
}, {
	Rule: contract.Rule{
		ID:       "discovery/handler-name",
		Severity: contract.Error,
		Source:   discoveryCheck(),
		Why:      "The name is a part of the path, and of <handler>.<ExtensionConfig> in ClusterClasses. Cluster API rejects all handlers if one name is invalid.",
		Fix:      "Use at most 63 lower case letters, digits and dashes.",
	},
	Server: eachHandler(func(h hooksv1.ExtensionHandler) (found []Problem) {
		for _, text := range validation.IsDNS1123Label(h.Name) {
			found = append(found, problem("name", "invalid name %q: %s", h.Name, text))
		}
		return found
	}),
}, {
	Rule: contract.Rule{
		ID:       "discovery/unique-names",
		Severity: contract.Error,
		Source:   discoveryCheck(),
		Why:      "Names must be unique in a server, also for handlers of different hooks. Cluster API rejects all handlers otherwise.",
		Fix:      "Rename one of the handlers.",
	},
	Server: checkUniqueNames,
}, {
	Rule: contract.Rule{
		ID:       "discovery/known-hook",
		Severity: contract.Error,
		Source:   discoveryCheck(),
		Why:      "Cluster API rejects all handlers if it does not know the hook of one, by group, version and name.",
		Fix:      "Use a hook of \"capi-manifests extension hooks\". The group is hooks.runtime.cluster.x-k8s.io, and names begin with a capital letter; the examples of the proposal differ.",
	},
	Server: eachHandler(func(h hooksv1.ExtensionHandler) []Problem {
		if _, known := hookOf(h.RequestHook.APIVersion, h.RequestHook.Hook); known {
			return nil
		}
		return problems("requestHook", "unknown hook %s %s%s", h.RequestHook.APIVersion, h.RequestHook.Hook, suggestion(h.RequestHook))
	}),
}, {
	Rule: contract.Rule{
		ID:       "discovery/not-a-handler",
		Severity: contract.Warning,
		Source:   proposal("Discovery hook"),
		Why:      "Discovery describes the handlers. Cluster API calls it without a name, and never as a handler.",
		Fix:      "Remove the handler of the hook Discovery.",
	},
	Server: eachHandler(func(h hooksv1.ExtensionHandler) []Problem {
		if h.RequestHook.Hook == discovery {
			return problems("requestHook.hook", "Discovery is listed as a handler")
		}
		return nil
	}),
}, {
	Rule: contract.Rule{
		ID:       "discovery/timeout",
		Severity: contract.Error,
		Source:   discoveryCheck(),
		Why:      "Cluster API waits for an extension while it reconciles a Cluster, and rejects all handlers if one wants more than 30 seconds.",
		Fix:      "Set timeoutSeconds from 1 to 30, or leave it out for 10.",
	},
	Server: eachHandler(func(h hooksv1.ExtensionHandler) []Problem {
		if seconds := h.TimeoutSeconds; seconds != nil && (*seconds < 0 || *seconds > maxTimeout) {
			return problems("timeoutSeconds", "invalid timeout %d: want 1 to 30 seconds", *seconds)
		}
		return nil
	}),
}, {
	Rule: contract.Rule{
		ID:       "discovery/short-timeout",
		Severity: contract.Info,
		Source:   proposal("Registering Runtime Extensions"),
		Why:      "An extension adds to the duration of every reconcile. The proposal limits the timeout to 10 seconds; Cluster API accepts 30.",
		Fix:      "Answer in milliseconds and work in the background; set timeoutSeconds to 10 or less.",
	},
	Server: eachHandler(func(h hooksv1.ExtensionHandler) []Problem {
		if seconds := h.TimeoutSeconds; seconds != nil && *seconds > hooksv1.DefaultHandlersTimeoutSeconds && *seconds <= maxTimeout {
			return problems("timeoutSeconds", "the timeout of %d seconds is longer than the 10 seconds of the proposal", *seconds)
		}
		return nil
	}),
}, {
	Rule: contract.Rule{
		ID:       "discovery/failure-policy",
		Severity: contract.Error,
		Source:   discoveryCheck(),
		Why:      "Cluster API rejects all handlers if the failure policy of one is neither Ignore nor Fail.",
		Fix:      "Set failurePolicy to Ignore or Fail, or leave it out for Fail.",
	},
	Server: eachHandler(func(h hooksv1.ExtensionHandler) []Problem {
		if policy := h.FailurePolicy; policy != nil && *policy != hooksv1.FailurePolicyFail && *policy != hooksv1.FailurePolicyIgnore {
			return problems("failurePolicy", "invalid failure policy %q: want Ignore or Fail", *policy)
		}
		return nil
	}),
}, {
	Rule: contract.Rule{
		ID:       "discovery/one-in-place-handler",
		Severity: contract.Error,
		Source:   book("implement-in-place-update-hooks", "Introduction"),
		Why:      "Cluster API supports one extension for each of the hooks CanUpdateMachine, CanUpdateMachineSet and UpdateMachine, and reports an error if there are more.",
		Fix:      "Handle all updates in one handler.",
	},
	Server: checkOneInPlaceHandler,
}, {
	Rule: contract.Rule{
		ID:       "discovery/deterministic",
		Severity: contract.Warning,
		Source:   general("Deterministic result"),
		Why:      "Cluster API calls Discovery at each reconcile of the ExtensionConfig, and of any replica of the server. If the answers differ, handlers of ClusterClasses come and go.",
		Fix:      "Give the same handlers in each answer.",
	},
	Server: checkDiscoveryRepeats,
}, {
	Rule: contract.Rule{
		ID:       "discovery/unknown-path",
		Severity: contract.Warning,
		Source:   proposal("Runtime SDK rules"),
		Why:      "Each handler has its own path. A server that answers Success on every path hides that a handler is missing.",
		Fix:      "Answer requests to unknown paths with status 404.",
	},
	Server: func(t *Transcript) []Problem {
		var response hooksv1.DiscoveryResponse
		if t.Unknown.Status == http.StatusOK && json.Unmarshal(t.Unknown.Body, &response) == nil && response.Status == hooksv1.ResponseStatusSuccess {
			return problems("", "the server answers Success to a request for a handler that it does not have")
		}
		return nil
	},
}}

// discovered returns the first answer to Discovery; false if it is unreadable.
func (t *Transcript) discovered() (answer hooksv1.DiscoveryResponse, ok bool) {
	ok = t.Discovery[0].Status == http.StatusOK && json.Unmarshal(t.Discovery[0].Body, &answer) == nil
	return answer, ok
}

// eachHandler makes a check of the server of a check of one handler in the answer to Discovery.
func eachHandler(check func(hooksv1.ExtensionHandler) []Problem) func(*Transcript) []Problem {
	return func(t *Transcript) (found []Problem) {
		response, _ := t.discovered()
		for i, h := range response.Handlers {
			for _, p := range check(h) {
				p.Handler, p.Field = h.Name, fmt.Sprintf("handlers[%d].%s", i, p.Field)
				found = append(found, p)
			}
		}
		return found
	}
}

func checkUniqueNames(t *Transcript) (found []Problem) {
	response, _ := t.discovered()
	first := map[string]hooksv1.ExtensionHandler{}
	for i, h := range response.Handlers {
		if earlier, duplicate := first[h.Name]; duplicate {
			found = append(found, Problem{h.Name, fmt.Sprintf("handlers[%d].name", i), fmt.Sprintf("the name %q of the handler of %s is that of the handler of %s too", h.Name, h.RequestHook.Hook, earlier.RequestHook.Hook)})
			continue
		}
		first[h.Name] = h
	}
	return found
}

// suggestion names the hook that differs only in upper and lower case, or in the group.
func suggestion(written hooksv1.GroupVersionHook) string {
	for _, h := range Hooks() {
		if strings.EqualFold(h.Name, written.Hook) {
			return fmt.Sprintf("; did you mean %s %s?", h.APIVersion(), h.Name)
		}
	}
	return ""
}

func checkOneInPlaceHandler(t *Transcript) (found []Problem) {
	count := map[string]int{}
	for _, h := range t.Handlers {
		if count[h.Hook.Name]++; isInPlace(h.Hook) && count[h.Hook.Name] > 1 {
			found = append(found, Problem{h.Name, "", "another handler of the server has the hook " + h.Hook.Name + " too"})
		}
	}
	return found
}

func checkDiscoveryRepeats(t *Transcript) []Problem {
	handlersOf := func(c Call) []hooksv1.ExtensionHandler {
		var response hooksv1.DiscoveryResponse
		_ = json.Unmarshal(c.Body, &response) // an unreadable answer has no handlers
		slices.SortFunc(response.Handlers, func(a, b hooksv1.ExtensionHandler) int { return cmp.Compare(a.Name, b.Name) })
		return response.Handlers
	}
	if _, ok := t.discovered(); ok && !reflect.DeepEqual(handlersOf(t.Discovery[0]), handlersOf(t.Discovery[1])) {
		return problems("handlers", "the second answer has other handlers than the first one")
	}
	return nil
}
