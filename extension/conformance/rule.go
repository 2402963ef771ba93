// SPDX-License-Identifier: Apache-2.0

// Package conformance checks servers of Cluster API's Runtime Extensions: it calls a
// server as Cluster API does, and checks the answers against the rules of the Runtime SDK.
//
// Talk calls the server and returns a Transcript; Check applies the rules to a Transcript, without a server.
// [RULES.md](RULES.md) lists the rules; each has a server that keeps it and one that violates it in examples.
package conformance

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
)

//go:generate go -C ../../tools run ./hookschema -dir ../extension -output ../extension/conformance/schemas.json
//go:generate env UPDATE=1 go test -run TestMarkdown_UpToDate .

// Rule is a rule of the Runtime SDK. It has one of Server and Handler.
type Rule struct {
	contract.Rule
	// Server checks the server as a whole.
	Server func(*Transcript) []Problem
	// Handler checks a handler.
	Handler func(*Handler) []Problem
	// Of reports whether the rule is about a hook; nil for all hooks.
	Of func(Hook) bool
}

// Problem is a violation.
type Problem struct {
	// Handler is the name of the handler, in a rule about the server.
	Handler string
	// Field is the field of the answer, such as "items[0].patch".
	Field   string
	Message string
}

func problem(field, format string, args ...any) Problem {
	return Problem{Field: field, Message: fmt.Sprintf(format, args...)}
}

func problems(field, format string, args ...any) []Problem {
	return []Problem{problem(field, format, args...)}
}

// Outcome is the result of a rule for a server or a handler.
type Outcome string

// The outcomes.
const (
	// Passed means that the rule was checked without findings.
	Passed Outcome = "passed"
	// Failed means that there are findings.
	Failed Outcome = "failed"
	// Skipped means that the rule could not be checked, because answers are missing.
	Skipped Outcome = "skipped"
)

// Result is the result of a rule for a handler, or for the server as a whole.
type Result struct {
	Rule string `json:"rule"`
	// Handler and Hook are empty for the server as a whole.
	Handler  string             `json:"handler,omitempty"`
	Hook     string             `json:"hook,omitempty"`
	Outcome  Outcome            `json:"outcome"`
	Findings []contract.Finding `json:"findings,omitempty"`
}

// Rules returns all rules, sorted by ID.
func Rules() []Rule {
	rules := slices.Concat(connectionRules, discoveryRules, callRules, patchRules, variableRules, upgradePlanRules, inPlaceRules)
	for i := range rules {
		rules[i].Only = "extension server"
		rules[i].Rule = rules[i].WithExamples(examples)
	}
	slices.SortFunc(rules, func(a, b Rule) int { return strings.Compare(a.ID, b.ID) })
	return rules
}

// Check applies all rules to a conversation with the server at an address. The address is the file of the findings.
func Check(t *Transcript, address string) []Result {
	var results []Result
	for _, rule := range Rules() {
		if rule.Server != nil {
			results = append(results, rule.ofServer(t, address))
			continue
		}
		for _, h := range t.Handlers {
			if rule.Of == nil || rule.Of(h.Hook) {
				results = append(results, rule.ofHandler(h, address))
			}
		}
	}
	return results
}

func (r Rule) ofServer(t *Transcript, address string) Result {
	result := Result{Rule: r.ID, Outcome: Passed}
	if t.Discovery[0].Err != nil && !strings.HasPrefix(r.ID, "connection/") && r.ID != ruleAnswer {
		result.Outcome = Skipped
		return result
	}
	for _, p := range r.Server(t) {
		object := "server"
		if p.Handler != "" {
			object = "handler " + p.Handler
		}
		result.add(r.finding(p, address, object))
	}
	return result
}

func (r Rule) ofHandler(h *Handler, address string) Result {
	result := Result{Rule: r.ID, Handler: h.Name, Hook: h.Hook.Name, Outcome: Passed}
	if len(h.Calls[Concurrent]) == 0 && r.ID != ruleTimeout && r.ID != ruleCallAnswer {
		result.Outcome = Skipped
		return result
	}
	for _, p := range r.Handler(h) {
		result.add(r.finding(p, address, h.Hook.Name+" "+h.Name))
	}
	return result
}

func (r *Result) add(finding contract.Finding) {
	r.Outcome, r.Findings = Failed, append(r.Findings, finding)
}

func (r Rule) finding(p Problem, address, object string) contract.Finding {
	return contract.Finding{Rule: r.ID, Severity: r.Severity, File: address, Object: object, Field: p.Field, Message: p.Message, Fix: r.Fix}
}

// Findings returns the findings of results, the worst first.
func Findings(results []Result) []contract.Finding {
	all := []contract.Finding{}
	for _, result := range results {
		all = append(all, result.Findings...)
	}
	rank := func(f contract.Finding) int { return slices.Index(contract.Severities(), f.Severity) }
	slices.SortStableFunc(all, func(a, b contract.Finding) int { return cmp.Compare(rank(a), rank(b)) })
	return all
}

// ContractRules returns the rules without their checks.
func ContractRules() []contract.Rule {
	var rules []contract.Rule
	for _, rule := range Rules() {
		rules = append(rules, rule.Rule)
	}
	return rules
}

// Markdown is RULES.md.
func Markdown() string {
	return contract.MarkdownOf("The checks of `capi-extension test`. The folder [examples](examples) has the answers of a server that keeps a rule,\n"+
		"and of one that violates it. An error is a violation of a MUST, a warning of a SHOULD. "+
		"[docs/runtime-extensions.md](../../docs/runtime-extensions.md) describes the conversation with the server.", ContractRules())
}

// is returns the condition of a rule about some hooks.
func is(names ...string) func(Hook) bool {
	return func(h Hook) bool { return slices.Contains(names, h.Name) }
}

// examples have a server that keeps each rule, and one that violates it, as the answers of the server. Findings are expected
// for the handlers in comments that begin with "<-". Keys that begin with $ describe the server:
//
//   - $server: its certificate and TLS version;
//   - $if: the kind of request that has this answer: malformed, unknown-field, unknown-setting, reordered, patched, concurrent, aborted;
//   - $status and $body: the HTTP status and the content, instead of the other keys;
//   - $took: the duration of the answer; "forever" for no answer.
//
// Several answers are given one after the other, and then again from the first. Patches are written as text, and sent in base64; a UID
// that begins with $ stands for the UID of the template of a kind in the request.
//
//go:embed examples
var examples embed.FS

// The documents that the rules come from.

// book is a page of Cluster API's book about the Runtime SDK.
func book(page, section string) contract.Source {
	return contract.Source{Document: "Runtime SDK", Section: section, URL: "https://cluster-api.sigs.k8s.io/tasks/experimental-features/runtime-sdk/" + page}
}

func general(section string) contract.Source { return book("implement-extensions", section) }
func topology(section string) contract.Source {
	return book("implement-topology-mutation-hook", section)
}

// proposal is the Runtime SDK proposal.
func proposal(section string) contract.Source {
	return contract.Source{Document: "Runtime SDK proposal", Section: section, URL: "https://github.com/kubernetes-sigs/cluster-api/blob/main/docs/proposals/20220221-runtime-SDK.md"}
}

// discoveryCheck is Cluster API's own check of the responses to Discovery.
func discoveryCheck() contract.Source {
	return contract.Source{Document: "Cluster API's runtime client", Section: "defaultAndValidateDiscoveryResponse", URL: "https://github.com/kubernetes-sigs/cluster-api/blob/v1.14.2/internal/runtime/client/client.go"}
}
