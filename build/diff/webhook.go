// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// requestChanges compares the requests that the webhooks of a configuration match.
func requestChanges(a, b map[string]any) (changes []Change) {
	before, after := webhooksOf(a), webhooksOf(b)
	for _, name := range unionOfKeys(before, after) {
		if before[name] != nil && after[name] != nil {
			changes = append(changes, ruleChanges("webhooks["+name+"].rules", before[name], after[name])...)
		}
	}
	return changes
}

// withoutRequests returns a configuration without the rules of its webhooks.
func withoutRequests(object map[string]any) map[string]any {
	rest := maps.Clone(object)
	webhooks, isList := object["webhooks"].([]any)
	if !isList {
		return rest
	}
	var plain []any
	for _, element := range webhooks {
		if webhook, isMap := element.(map[string]any); isMap {
			webhook = maps.Clone(webhook)
			delete(webhook, "rules")
			element = webhook
		}
		plain = append(plain, element)
	}
	rest["webhooks"] = plain
	return rest
}

// webhooksOf returns the webhooks of a configuration by name.
func webhooksOf(object map[string]any) map[string]map[string]any {
	webhooks := map[string]map[string]any{}
	for _, webhook := range mapsAt(object, "webhooks") {
		webhooks[textAt(webhook, "name")] = webhook
	}
	return webhooks
}

var (
	wholeWebhook = regexp.MustCompile(`^webhooks\[([^\]]*)\]$`)
	webhookScope = regexp.MustCompile(`^webhooks\[[^\]]*\]\.(clientConfig\.url|clientConfig\.service\.(?:name|namespace|port)|namespaceSelector|objectSelector|matchConditions|matchPolicy|sideEffects|reinvocationPolicy)\b`)
)

// markWebhook sets the level and the consequence of a changed field of a webhook.
func (change *Change) markWebhook(after map[string]map[string]any) {
	whole := wholeWebhook.FindStringSubmatch(change.Path)
	switch {
	case whole != nil && change.To != nil:
		webhook := after[whole[1]]
		change.Level, change.Rule, change.Message = Review, "webhook/added", "webhook added"
		if webhook != nil {
			change.To = webhook // with its rules
		}
		change.Consequence = "It matches " + strings.Join(requestsOf(webhook, false), ", ") + ". " + failurePolicyEffect(policyOf(webhook))
	case whole != nil:
		change.Level, change.Rule, change.Message = Review, "webhook/removed", "webhook removed"
		change.Consequence = "The provider no longer validates or defaults these requests."
	case strings.HasSuffix(change.Path, ".failurePolicy"):
		change.Level, change.Rule = Review, "webhook/failure-policy"
		change.Consequence = failurePolicyEffect(compact(change.To))
	case webhookScope.MatchString(change.Path):
		change.Level, change.Rule = Review, "webhook/reach"
	}
}

// policyOf returns a webhook's failure policy, or the default.
func policyOf(webhook map[string]any) string {
	if policy := textAt(webhook, "failurePolicy"); policy != "" {
		return policy
	}
	return "Fail"
}

// failurePolicyEffect describes the effect of a failure policy.
func failurePolicyEffect(policy string) string {
	if policy == "Ignore" {
		return "While the provider is unavailable, requests are admitted without validation."
	}
	return "While the provider is unavailable, requests are rejected."
}

// ruleChanges compares the requests that a webhook matches. API versions count only with matchPolicy Exact; otherwise the API server
// converts objects to a matching version.
func ruleChanges(path string, a, b map[string]any) (changes []Change) {
	exact := textAt(a, "matchPolicy") == "Exact" || textAt(b, "matchPolicy") == "Exact"
	before, after := requestsOf(a, exact), requestsOf(b, exact)
	for _, request := range missingIn(after, before) {
		changes = append(changes, Change{Rule: "webhook/rules", Level: Review, Path: path, Message: "no longer matches " + request, From: request})
	}
	for _, request := range missingIn(before, after) {
		changes = append(changes, Change{Rule: "webhook/rules", Level: Review, Path: path, Message: "now matches " + request, To: request})
	}
	if from, to := versionsIn(a), versionsIn(b); !exact && from != to {
		changes = append(changes, Change{Rule: "webhook/versions", Level: Plain, Path: path, Message: "API versions changed", From: from, To: to})
	}
	return changes
}

// missingIn returns the requests that are not in another list.
func missingIn(other, requests []string) []string {
	return slices.DeleteFunc(slices.Clone(requests), func(request string) bool { return slices.Contains(other, request) })
}

func versionsIn(webhook map[string]any) string {
	var versions []string
	for _, rule := range mapsAt(webhook, "rules") {
		versions = append(versions, textsAt(rule, "apiVersions")...)
	}
	slices.Sort(versions)
	return strings.Join(slices.Compact(versions), ", ")
}

// requestsOf returns the requests that a webhook matches, sorted, such as "CREATE awsclusters.infrastructure.cluster.x-k8s.io".
func requestsOf(webhook map[string]any, withVersion bool) (requests []string) {
	for _, rule := range mapsAt(webhook, "rules") {
		versions, scope := []string{""}, ""
		if withVersion {
			versions = textsAt(rule, "apiVersions")
		}
		if text := textAt(rule, "scope"); text != "" && text != "*" {
			scope = " (" + text + ")"
		}
		for _, operation := range textsAt(rule, "operations") {
			for _, resource := range textsAt(rule, "resources") {
				for _, group := range textsAt(rule, "apiGroups") {
					for _, version := range versions {
						target := apischema.GroupResource{Group: group, Resource: resource}
						requests = append(requests, strings.TrimSpace(operation+" "+target.String()+" "+version)+scope)
					}
				}
			}
		}
	}
	slices.Sort(requests)
	return slices.Compact(requests)
}
