// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// webhookChanges compares the webhooks of a configuration: their rules as the
// requests that they are asked about, everything else by field.
func webhookChanges(a, b map[string]any) []Change {
	before, after := webhooksOf(a), webhooksOf(b)
	changes := fields("", withoutRules(a), withoutRules(b))
	for i := range changes {
		markWebhook(&changes[i], after)
		markMetadata(&changes[i])
	}
	for _, name := range unionOfKeys(before, after) {
		if before[name] != nil && after[name] != nil {
			changes = append(changes, ruleChanges("webhooks["+name+"].rules", before[name], after[name])...)
		}
	}
	return changes
}

func withoutRules(object map[string]any) map[string]any {
	rest := maps.Clone(object)
	delete(rest, "status")
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

// webhooksOf are the webhooks of a configuration by name.
func webhooksOf(object map[string]any) map[string]map[string]any {
	webhooks := map[string]map[string]any{}
	for _, webhook := range mapsAt(object, "webhooks") {
		webhooks[textAt(webhook, "name")] = webhook
	}
	return webhooks
}

var (
	wholeWebhook   = regexp.MustCompile(`^webhooks\[([^\]]*)\]$`)
	webhookReaches = regexp.MustCompile(`^webhooks\[[^\]]*\]\.(clientConfig\.url|clientConfig\.service\.(?:name|namespace|port)|namespaceSelector|objectSelector|matchConditions|matchPolicy|sideEffects|reinvocationPolicy)\b`)
)

// markWebhook says how much a change of a webhook asks of a reviewer, and why.
func markWebhook(change *Change, after map[string]map[string]any) {
	whole := wholeWebhook.FindStringSubmatch(change.Path)
	switch {
	case whole != nil && change.To != nil:
		webhook := after[whole[1]]
		change.Level, change.Rule, change.Says = Review, "webhook/added", "webhook is new"
		if webhook != nil {
			change.To = webhook // with its rules
		}
		change.Means = "It is asked about " + strings.Join(requestsOf(webhook, false), ", ") + ". " + downMeans(policyOf(webhook))
	case whole != nil:
		change.Level, change.Rule, change.Says = Review, "webhook/removed", "webhook is gone"
		change.Means = "Its requests are no longer checked, or defaulted, by the provider."
	case strings.HasSuffix(change.Path, ".failurePolicy"):
		change.Level, change.Rule = Review, "webhook/failure-policy"
		change.Means = downMeans(compact(change.To))
	case webhookReaches.MatchString(change.Path):
		change.Level, change.Rule = Review, "webhook/reach"
	}
}

// policyOf is a webhook's failure policy, as the API server fills it in.
func policyOf(webhook map[string]any) string {
	if policy := textAt(webhook, "failurePolicy"); policy != "" {
		return policy
	}
	return "Fail"
}

func downMeans(policy string) string {
	if policy == "Ignore" {
		return "While the provider does not answer, requests pass unchecked."
	}
	return "While the provider does not answer, requests are refused."
}

// ruleChanges tells about which requests a webhook is asked, and was not, and the
// other way round. In which version it gets an object says nothing of that, unless
// the webhook takes no other: matchPolicy Exact.
func ruleChanges(path string, a, b map[string]any) (changes []Change) {
	exact := textAt(a, "matchPolicy") == "Exact" || textAt(b, "matchPolicy") == "Exact"
	before, after := requestsOf(a, exact), requestsOf(b, exact)
	for _, request := range missingIn(after, before) {
		changes = append(changes, Change{Rule: "webhook/rules", Level: Review, Path: path, Says: "no longer asked about " + request, From: request})
	}
	for _, request := range missingIn(before, after) {
		changes = append(changes, Change{Rule: "webhook/rules", Level: Review, Path: path, Says: "now asked about " + request, To: request})
	}
	if from, to := versionsIn(a), versionsIn(b); !exact && !slices.Equal(from, to) {
		changes = append(changes, Change{Rule: "webhook/versions", Level: Plain, Path: path, Says: "sent in other versions", From: strings.Join(from, ", "), To: strings.Join(to, ", ")})
	}
	return changes
}

// missingIn are those of all that some does not have.
func missingIn(some, all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return slices.Contains(some, one) })
}

func versionsIn(webhook map[string]any) (versions []string) {
	for _, rule := range mapsAt(webhook, "rules") {
		versions = append(versions, textsAt(rule, "apiVersions")...)
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}

// requestsOf are the requests that a webhook is asked about, as in "CREATE awsclusters.infrastructure.cluster.x-k8s.io".
func requestsOf(webhook map[string]any, withVersion bool) (requests []string) {
	for _, rule := range mapsAt(webhook, "rules") {
		versions := []string{""}
		if withVersion {
			versions = textsAt(rule, "apiVersions")
		}
		for _, operation := range textsAt(rule, "operations") {
			for _, resource := range textsAt(rule, "resources") {
				for _, group := range textsAt(rule, "apiGroups") {
					for _, version := range versions {
						requests = append(requests, strings.TrimSpace(operation+" "+groupResource(group, resource)+" "+version)+scopeOf(rule))
					}
				}
			}
		}
	}
	slices.Sort(requests)
	return slices.Compact(requests)
}

func scopeOf(rule map[string]any) string {
	if scope := textAt(rule, "scope"); scope != "" && scope != "*" {
		return " (" + scope + ")"
	}
	return ""
}

// groupResource is as in "awsclusters.infrastructure.cluster.x-k8s.io".
func groupResource(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}
