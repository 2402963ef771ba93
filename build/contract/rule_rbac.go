// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
)

const (
	aggregateToManager = "cluster.x-k8s.io/aggregate-to-manager"
	aggregateToKubeadm = "kubeadm.controlplane.cluster.x-k8s.io/aggregate-to-manager"
	rbacPage           = "reference/access-authn-authz/rbac/"
	goodPractices      = "concepts/security/rbac-good-practices/"
)

// rbacRules are about what the provider may do, and what Cluster API may do with the provider's kinds.
var rbacRules = []Rule{{
	ID:       "rbac/aggregation-label",
	Severity: Error,
	Source:   forInfraCluster("RBAC"),
	Why:      "Cluster API's own role does not have this group. Without a role that is aggregated to it, Cluster API may not read or make the objects.",
	Fix:      "Add a ClusterRole with the label " + aggregateToManager + ": \"true\" that grants create, delete, get, list, patch, update and watch of the resource.",
	Check:    eachOwnGroup(func(b *Bundle, d *definition) []Finding { return aggregated(b, d, aggregateToManager, demandOf(d)) }),
}, {
	ID:       "rbac/aggregation-label-kcp",
	Severity: Info,
	Source:   forControlPlane("RBAC"),
	Why:      "The kubeadm control plane makes machines and their configuration itself. Its role does not have this group either.",
	Fix:      "Label the ClusterRole with " + aggregateToKubeadm + ": \"true\" too.",
	Check: eachOwnGroup(func(b *Bundle, d *definition) []Finding {
		if d.Role != infraMachine && d.Role != bootstrapConfig {
			return nil
		}
		return aggregated(b, d, aggregateToKubeadm, demandOf(d))
	}),
}, {
	ID:       "rbac/aggregation-finalizers",
	Severity: Info,
	Source:   forInfraCluster("RBAC"),
	Why:      "Where owner references that block deletion are checked, Cluster API may set them only if it may update the finalizers of the owner.",
	Fix:      "Grant update of <resource>/finalizers in the aggregated ClusterRole.",
	Check: eachOwnGroup(func(b *Bundle, d *definition) []Finding {
		return aggregated(b, d, aggregateToManager, demand{lowerPlural(d) + "/finalizers", []string{"update"}})
	}),
}, {
	ID:       "rbac/aggregation-too-broad",
	Severity: Warning,
	Source:   forInfraCluster("RBAC"),
	Why:      "All that an aggregated role grants becomes Cluster API's. The provider's own permissions, such as those for Secrets, are none of its business.",
	Fix:      "Put the label on a ClusterRole of its own that grants the provider's kinds and nothing else.",
	Check:    checkAggregatedBreadth,
}, {
	ID:       "rbac/aggregation-selector",
	Severity: Error,
	Source:   kubernetes("Aggregated ClusterRoles", rbacPage),
	Why:      "Kubernetes fills in the rules of an aggregated role from those that it selects, and overwrites its own. If it selects none it grants nothing.",
	Fix:      "Remove the role's own rules, and label the roles that it is meant to select.",
	Check:    checkAggregation,
}, {
	ID:       "rbac/own-types",
	Severity: Error,
	Source:   forInfraCluster("RBAC"),
	Why:      "The provider's controller watches its own kinds and writes their status. Without these permissions it fails at start or at the first object.",
	Fix:      "Grant get, list, watch and update or patch of the resource, and update or patch of its status, to the service account of the controller.",
	Check: func(b *Bundle) (findings []Finding) {
		if len(b.ofKind(deploymentKind)) == 0 {
			return nil
		}
		for _, d := range notTemplates(b) {
			for _, wanted := range []demand{
				{lowerPlural(d), []string{"get", "list", "watch", "update|patch"}},
				{lowerPlural(d) + "/status", []string{"update|patch"}},
			} {
				if verb, lacks := b.grants.lacks(d.Group, wanted); lacks {
					findings = append(findings, d.At("spec", "names", "plural").finding("no role lets the provider %s %s", verb, wanted.resource))
				}
			}
		}
		return findings
	},
}, {
	ID:       "rbac/read-clusters",
	Severity: Warning,
	Source:   forInfraCluster("RBAC"),
	Why:      "A controller of a provider looks at the Cluster that its objects belong to: whether it is paused, and where its API server is.",
	Fix:      "Grant get, list and watch of clusters in cluster.x-k8s.io.",
	Check: func(b *Bundle) []Finding {
		if len(notTemplates(b)) == 0 {
			return nil
		}
		return b.grants.lacking(b, "cluster.x-k8s.io", demand{"clusters", []string{"get", "list", "watch"}})
	},
}, {
	ID:       "rbac/read-crds",
	Severity: Info,
	Source:   contractOverview,
	Why:      "Cluster API's library finds the version of a contract in the labels of CRDs. A controller that uses it has to read them.",
	Fix:      "Grant get, list and watch of customresourcedefinitions, if the controller follows references to other providers.",
	Check: func(b *Bundle) []Finding {
		if len(notTemplates(b)) == 0 {
			return nil
		}
		return b.grants.lacking(b, crdKind.Group, demand{"customresourcedefinitions", []string{"get", "list", "watch"}})
	},
}, {
	ID:       "control-plane/kubeconfig-rbac",
	Severity: Warning,
	Source:   forControlPlane("Cluster kubeconfig management"),
	Why:      "A control plane provider makes the Secret with the kubeconfig of the cluster.",
	Fix:      "Grant create and update or patch of secrets.",
	Check: func(b *Bundle) []Finding {
		if len(b.playing(controlPlane)) == 0 {
			return nil
		}
		return b.grants.lacking(b, "", demand{"secrets", []string{"create", "update|patch"}})
	},
}, {
	ID:       "rbac/subject-exists",
	Severity: Warning,
	Source:   kubernetes("Referring to subjects", rbacPage),
	Why:      "A binding for a service account that is not there gives its permissions to whoever makes one with that name.",
	Fix:      "Name a ServiceAccount of the provider, with its namespace.",
	Check:    checkSubjects,
}, {
	ID:       "rbac/subject-not-default",
	Severity: Warning,
	Source:   kubernetes("Least privilege", goodPractices),
	Why:      "Every pod in the namespace that names no service account has the permissions of the default one, pods of other providers among them.",
	Fix:      "Make a ServiceAccount for the provider, and bind the role to it.",
	Check: eachSubject(func(subject Value) []Finding {
		if subject.At("kind").Text() == serviceAccountKind.Kind && subject.At("name").Text() == "default" {
			return []Finding{subject.At("name").finding("the role is granted to the default service account")}
		}
		return nil
	}),
}, {
	ID:       "rbac/no-cluster-admin",
	Severity: Warning,
	Source:   kubernetes("Least privilege", goodPractices),
	Why:      "Whoever takes over a pod of a provider with cluster-admin has the whole cluster.",
	Fix:      "Grant what the provider needs in a ClusterRole of its own.",
	Check: func(b *Bundle) (findings []Finding) {
		for _, binding := range b.ofKind(roleBindingKind, clusterBindingKind) {
			if name := binding.At("roleRef", "name"); name.Text() == "cluster-admin" {
				findings = append(findings, name.finding("cluster-admin is granted"))
			}
		}
		return findings
	},
}, {
	ID:       "rbac/no-wildcard",
	Severity: Warning,
	Source:   kubernetes("Least privilege", goodPractices),
	Why:      "A rule with * for groups, resources and verbs is cluster-admin by another name, for kinds that are yet to come too.",
	Fix:      "Name the groups, resources and verbs.",
	Check: eachRoleRule(func(rule Value) []Finding {
		if contains(rule.At("apiGroups"), "*") && contains(rule.At("resources"), "*") && contains(rule.At("verbs"), "*") {
			return []Finding{rule.finding("everything is allowed")}
		}
		return nil
	}),
}, {
	ID:       "rbac/escalation-verbs",
	Severity: Warning,
	Source:   kubernetes("Privilege escalation risks", goodPractices),
	Why:      "With escalate, bind or impersonate somebody can make more of his permissions than he was given.",
	Fix:      "Grant the permissions themselves.",
	Check: eachRoleRule(func(rule Value) (findings []Finding) {
		for _, verb := range rule.At("verbs").Items() {
			if slices.Contains([]string{"escalate", "bind", "impersonate"}, verb.Text()) {
				findings = append(findings, verb.finding("the verb %s is allowed", verb.Text()))
			}
		}
		return findings
	}),
}}

// eachOwnGroup checks the kinds with a contract whose group Cluster API's role does not have.
func eachOwnGroup(check func(*Bundle, *definition) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		for _, d := range b.withRole() {
			if d.Role != ipamPool && !slices.Contains(knownGroups, d.Group) {
				findings = append(findings, check(b, d)...)
			}
		}
		return findings
	}
}

// demandOf is what Cluster API does with a kind: it only reads and changes templates
// of clusters and control planes, and makes everything else.
func demandOf(d *definition) demand {
	verbs := []string{"get", "list", "patch", "update", "watch"}
	if !d.Template || d.Role != infraCluster && d.Role != controlPlane {
		verbs = append(verbs, "create", "delete")
	}
	return demand{lowerPlural(d), verbs}
}

// aggregated asks for a cluster role with a label that grants something.
func aggregated(b *Bundle, d *definition, label string, wanted demand) []Finding {
	var all grants
	for _, role := range b.ofKind(clusterRoleKind) {
		if role.At("metadata", "labels", label).Text() == "true" {
			all = append(all, b.rulesOf(role)...)
		}
	}
	if verb, lacks := all.lacks(d.Group, wanted); lacks {
		return []Finding{d.At("spec", "group").finding("no ClusterRole with the label %s grants %s of %s", label, verb, wanted.resource)}
	}
	return nil
}

// checkAggregatedBreadth looks at roles that others aggregate, not at those of an aggregated role of the bundle itself.
func checkAggregatedBreadth(b *Bundle) (findings []Finding) {
	own := map[string]bool{}
	for _, d := range b.definitions {
		own[d.Group] = true
	}
	for _, role := range b.ofKind(clusterRoleKind) {
		if label := role.At("metadata", "labels"); !aggregatedElsewhere(b, label) {
			continue
		}
		for _, rule := range role.At("rules").Items() {
			for _, group := range rule.At("apiGroups").Items() {
				if !own[group.Text()] {
					findings = append(findings, group.finding("Cluster API is granted %s in %s", strings.Join(rule.At("resources").texts(), ", "), quotedGroup(group.Text())))
				}
			}
		}
	}
	return findings
}

func aggregatedElsewhere(b *Bundle, labels Value) bool {
	aggregates := labels.At(aggregateToManager).Text() == "true" || labels.At(aggregateToKubeadm).Text() == "true"
	for _, role := range b.ofKind(clusterRoleKind) {
		for _, selector := range role.At("aggregationRule", "clusterRoleSelectors").Items() {
			aggregates = aggregates && !selects(selector, labels)
		}
	}
	return aggregates
}

func checkAggregation(b *Bundle) (findings []Finding) {
	for _, role := range b.ofKind(clusterRoleKind) {
		selectors := role.At("aggregationRule", "clusterRoleSelectors")
		if selectors.length() == 0 {
			continue
		}
		if rules := role.At("rules"); rules.length() > 0 {
			findings = append(findings, rules.finding("the rules of an aggregated role are overwritten"))
		}
		if len(b.rulesOf(role)) == role.At("rules").length() {
			findings = append(findings, selectors.finding("no ClusterRole of the provider has the labels"))
		}
	}
	return findings
}

func checkSubjects(b *Bundle) []Finding {
	return eachSubject(func(subject Value) []Finding {
		name, namespace := subject.At("name"), subject.At("namespace").Text()
		isOurs := subject.At("kind").Text() == serviceAccountKind.Kind && name.Text() != "default"
		if !isOurs || b.has(serviceAccountKind, namespace, name.Text()) {
			return nil
		}
		return []Finding{name.finding("there is no ServiceAccount %s/%s of the provider", namespace, name.Text())}
	})(b)
}

func eachSubject(check func(subject Value) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		for _, binding := range b.ofKind(roleBindingKind, clusterBindingKind) {
			for _, subject := range binding.At("subjects").Items() {
				findings = append(findings, check(subject)...)
			}
		}
		return findings
	}
}

func eachRoleRule(check func(rule Value) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) (findings []Finding) {
		for _, role := range b.ofKind(roleKind, clusterRoleKind) {
			for _, rule := range role.At("rules").Items() {
				findings = append(findings, check(rule)...)
			}
		}
		return findings
	}
}
