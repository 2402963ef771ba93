// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// rbacRules are the rules of the theme "rbac".
var rbacRules = []contract.Rule{{
	ID:       "rbac/aggregation-label",
	Severity: contract.Error,
	Source:   forInfraCluster("RBAC"),
	Why:      "Cluster API's own role does not include this group. Without an aggregated ClusterRole, Cluster API cannot read or create the objects.",
	Fix:      "Add a ClusterRole with the label " + aggregateToManager + ": \"true\" that grants create, delete, get, list, patch, update and watch of the resource.",
	Check: eachOwnGroup(func(b *contract.Bundle, d *contract.Definition) contract.Findings {
		return aggregated(b, d, aggregateToManager, permissionFor(d))
	}),
}, {
	ID:       "rbac/aggregation-selector",
	Severity: contract.Error,
	Source:   kubernetes("Aggregated ClusterRoles", rbacPage),
	Why:      "Kubernetes replaces the rules of an aggregated role with the rules of the selected roles. If it selects none, it grants nothing.",
	Fix:      "Remove the role's own rules, and label the roles that it selects.",
	Check:    checkAggregation,
}, {
	ID:       "rbac/own-types",
	Severity: contract.Error,
	Source:   forInfraCluster("RBAC"),
	Why:      "The provider's controller watches its own kinds and writes their status. Without these permissions it fails at start or at the first object.",
	Fix:      "Grant get, list, watch and update or patch of the resource, and update or patch of its status, to the controller's service account.",
	Check: func(b *contract.Bundle) (findings contract.Findings) {
		if len(b.OfKind(object.Deployment)) == 0 {
			return nil
		}
		cause := b.Permissions().BrokenBinding()
		for _, d := range notTemplates(b.Definitions) {
			for _, wanted := range []contract.Permission{
				contract.Need(lowerPlural(d), "get", "list", "watch", "update|patch"),
				contract.Need(lowerPlural(d)+"/status", "update|patch"),
			} {
				if verb, lacks := b.Grants.Lacks(d.Group, wanted); lacks {
					findings = append(findings, d.At("spec", "names", "plural").Finding("no role allows the provider to %s %s%s", verb, wanted.Resource, cause)...)
				}
			}
		}
		if cause != "" && len(findings) > 0 {
			return findings[:1] // one cause
		}
		return findings
	},
}, {
	ID:       "rbac/own-kinds",
	Severity: contract.Warning,
	Source:   kubernetes("Role and ClusterRole", rbacPage),
	Why:      "A controller that cannot list and watch a kind of its provider fails when it reads the first object of the kind, because its cache watches the kind.",
	Fix:      "Grant get, list and watch of the resource to the controller's service account.",
	Check:    checkOwnKinds,
}, {
	ID:       "rbac/broad-subject",
	Severity: contract.Warning,
	Source:   kubernetes("Least privilege", goodPractices),
	Why:      "Every user, or every service account of the cluster, has the permissions of the role.",
	Fix:      "Bind the role to the ServiceAccount of the provider.",
	Check: eachSubject(func(subject contract.Value) contract.Findings {
		name := subject.At("name")
		if kind := subject.At("kind").Text(); kind == "ServiceAccount" || !slices.Contains(allUsers, name.Text()) {
			return nil
		}
		return name.Finding("the role is granted to %s", name.Text())
	}),
}, {
	ID:       "rbac/read-clusters",
	Severity: contract.Warning,
	Source:   forInfraCluster("RBAC"),
	Why:      "A provider's controller reads paused and the address of the API server from the Cluster of its objects.",
	Fix:      "Grant get, list and watch of clusters in cluster.x-k8s.io.",
	Check: func(b *contract.Bundle) contract.Findings {
		if len(notTemplates(b.Definitions)) == 0 {
			return nil
		}
		findings := b.Grants.Lacking(b, "cluster.x-k8s.io", contract.Need("clusters", "get", "list", "watch"))
		if b.Metadata.ProviderType == extractor.Infrastructure {
			return findings.As(contract.Error) // every infrastructure controller reads the Cluster first
		}
		return findings
	},
}, {
	ID:       "rbac/subject-exists",
	Severity: contract.Warning,
	Source:   kubernetes("Referring to subjects", rbacPage),
	Why:      "A binding for a missing service account grants its permissions to any user who creates one with that name.",
	Fix:      "Name a ServiceAccount of the provider, with its namespace.",
	Check:    checkSubjects,
}, {
	ID:       "rbac/no-cluster-admin",
	Severity: contract.Warning,
	Source:   kubernetes("Least privilege", goodPractices),
	Why:      "An attacker in a pod with cluster-admin controls the whole cluster.",
	Fix:      "Grant the permissions that the provider needs in its own ClusterRole.",
	Check: eachValue("roleRef.name", func(name contract.Value) contract.Findings {
		if name.Text() != "cluster-admin" {
			return nil
		}
		return name.Finding("cluster-admin is granted")
	}, object.RoleBinding, object.ClusterRoleBinding),
}, {
	ID:       "rbac/no-wildcard",
	Severity: contract.Warning,
	Source:   kubernetes("Least privilege", goodPractices),
	Why:      "A rule with * for groups, resources and verbs equals cluster-admin, including kinds that are installed later.",
	Fix:      "Name the groups, resources and verbs.",
	Check: eachValue("rules[]", func(rule contract.Value) contract.Findings {
		if contract.Contains(rule.At("apiGroups"), "*") && contract.Contains(rule.At("resources"), "*") && contract.Contains(rule.At("verbs"), "*") {
			return rule.Finding("the rule allows everything")
		}
		return nil
	}, object.Role, object.ClusterRole),
}, {
	ID:       "rbac/escalation-verbs",
	Severity: contract.Warning,
	Source:   kubernetes("Privilege escalation risks", goodPractices),
	Why:      "The verbs escalate, bind and impersonate let a subject extend its own permissions.",
	Fix:      "Grant the permissions themselves.",
	Check: eachValue("rules[].verbs[]", func(verb contract.Value) contract.Findings {
		if !slices.Contains([]string{"escalate", "bind", "impersonate"}, verb.Text()) {
			return nil
		}
		return verb.Finding("the rule allows the verb %s", verb.Text())
	}, object.Role, object.ClusterRole),
}, {
	ID:       "rbac/roleref-exists",
	Severity: contract.Warning,
	Source:   kubernetes("RoleBinding and ClusterRoleBinding", "reference/access-authn-authz/rbac/"),
	Why:      "A binding to a missing role grants nothing, and the provider fails at its first request that needs it.",
	Fix:      "Add the role to the manifests, or correct the name. Ignore the finding if another component provides the role.",
	Check:    checkRoleRefs,
}, {
	ID:       "rbac/leader-election",
	Severity: contract.Error,
	Source:   kubernetes("Leases: leader election", "concepts/architecture/leases/"),
	Why:      "A controller with leader election does not reconcile before it holds the Lease. Without the permission it never reconciles, although its pod can be ready.",
	Fix:      "Add a Role that grants get, create and update of leases in coordination.k8s.io, and a RoleBinding to the service account of the controller.",
	Check:    checkLeaderElection,
}, {
	ID:       "rbac/manager-permissions",
	Severity: contract.Warning,
	Source:   contractOverview,
	Why:      "The controllers of machines and bootstrap data read the Machine that owns their objects, and exchange the bootstrap data in Secrets; the controllers of control planes write the Secret with the kubeconfig; all controllers write events. A manager that serves metrics with authentication lets the API server review the requests.",
	Fix:      "Grant the verbs on the resource to the controller's service account.",
	Check:    checkManagers,
}, {
	ID:       "rbac/role-effective",
	Severity: contract.Warning,
	Source:   kubernetes("Request verbs", "reference/access-authn-authz/authorization/"),
	Why:      "A role without rules grants nothing, and neither does a verb that no API uses, such as a misspelled verb.",
	Fix:      "Correct the verb, in lower case; add the rules, or remove the role with its bindings.",
	Check:    checkEffective,
}}

const (
	aggregateToManager = "cluster.x-k8s.io/aggregate-to-manager"
	rbacPage           = "reference/access-authn-authz/rbac/"
	goodPractices      = "concepts/security/rbac-good-practices/"
)

// allUsers are the groups and users that stand for all users or all service accounts.
var allUsers = []string{"system:authenticated", "system:unauthenticated", "system:serviceaccounts", "system:anonymous"}

// managerPermissions are the permissions of managers of kinds with one of the roles, in one of the groups.
var managerPermissions = []struct {
	roles      []contract.Role
	groups     []string
	permission contract.Permission
	// metrics limits the permission to managers that authenticate the readers of their metrics.
	metrics bool
}{
	{[]contract.Role{contract.InfraMachine, contract.BootstrapConfig}, []string{contract.CoreGroup}, contract.Need("machines", "get", "list", "watch"), false},
	{[]contract.Role{contract.InfraMachine}, []string{""}, contract.Need("secrets", "get"), false},
	{[]contract.Role{contract.BootstrapConfig}, []string{""}, contract.Need("secrets", "create"), false},
	{[]contract.Role{contract.ControlPlane}, []string{""}, contract.Need("secrets", "create", "update|patch"), false},
	{managed, []string{"", "events.k8s.io"}, contract.Need("events", "create"), false},
	{managed, []string{"authentication.k8s.io"}, contract.Need("tokenreviews", "create"), true},
	{managed, []string{"authorization.k8s.io"}, contract.Need("subjectaccessreviews", "create"), true},
}

// managed are the roles whose kinds a manager reconciles.
var managed = []contract.Role{contract.InfraCluster, contract.InfraMachine, contract.BootstrapConfig, contract.ControlPlane}

// checkManagers leaves managers without their role to rbac/read-clusters.
func checkManagers(b *contract.Bundle) (findings contract.Findings) {
	grants := b.Grants.OnSomeName()
	if !grants.Allow(contract.CoreGroup, "clusters", "get") {
		return nil
	}
	isInsecure := slices.ContainsFunc(flagsOf(b, "--insecure-diagnostics"), func(flag contract.Value) bool { return strings.HasSuffix(flag.Text(), "=true") })
	authenticates := len(flagsOf(b, "--diagnostics-address")) > 0 && !isInsecure
	for _, needed := range managerPermissions {
		isGranted := slices.ContainsFunc(needed.groups, func(group string) bool {
			_, lacks := grants.Lacks(group, needed.permission)
			return !lacks
		})
		if !isGranted && len(b.Definitions.Of(needed.roles...)) > 0 && (authenticates || !needed.metrics) {
			findings = append(findings, grants.Lacking(b, needed.groups[0], needed.permission)...)
		}
	}
	return findings
}

// knownVerbs are the verbs of Kubernetes and cert-manager, and the verbs of requests without a resource.
var knownVerbs = strings.Fields("* get list watch create update patch delete deletecollection bind escalate impersonate use approve sign attest reference head options post put")

func checkEffective(b *contract.Bundle) contract.Findings {
	return each(b.OfKind(object.Role, object.ClusterRole), func(role *contract.Object) (findings contract.Findings) {
		rules := role.At("rules")
		if rules.Length() == 0 && !role.At("aggregationRule").Exists() {
			return rules.Finding("the role grants nothing")
		}
		for _, verb := range fieldsAt(role.Value, "rules[].verbs[]") {
			if !slices.Contains(knownVerbs, verb.Text()) && !strings.Contains(verb.Text(), ":") && !contract.HasVariable(verb.Text()) {
				findings = append(findings, verb.Finding("no API knows the verb %q", verb.Text())...)
			}
		}
		return findings
	})
}

// checkOwnKinds reports kinds without a contract; rbac/own-types reports the others.
func checkOwnKinds(b *contract.Bundle) (findings contract.Findings) {
	if len(b.OfKind(object.Deployment)) == 0 || len(b.Grants) == 0 {
		return nil
	}
	own := notTemplates(b.Definitions)
	for _, d := range b.Definitions {
		if slices.Contains(own, d) || strings.HasSuffix(d.DefinedKind, "Template") { // many controllers never read templates
			continue
		}
		if verb, lacks := b.Grants.OnSomeName().Lacks(d.Group, contract.Need(lowerPlural(d), "get", "list", "watch")); lacks {
			findings = append(findings, d.At("spec", "names", "plural").Finding("no role allows the provider to %s %s", verb, lowerPlural(d))...)
		}
	}
	return findings
}

// eachOwnGroup checks the kinds with a contract whose group Cluster API's role does not include.
func eachOwnGroup(check func(*contract.Bundle, *contract.Definition) contract.Findings) func(*contract.Bundle) contract.Findings {
	return func(b *contract.Bundle) (findings contract.Findings) {
		for _, d := range b.Definitions.WithRole() {
			if d.Role != contract.IPAMPool && !slices.Contains(knownGroups, d.Group) {
				findings = append(findings, check(b, d)...)
			}
		}
		return findings
	}
}

// permissionFor returns the permissions that Cluster API needs for a kind: it only reads and modifies templates of
// clusters and control planes, and creates objects of all other kinds.
func permissionFor(d *contract.Definition) contract.Permission {
	verbs := []string{"get", "list", "patch", "update", "watch"}
	if !d.Template || d.Role != contract.InfraCluster && d.Role != contract.ControlPlane {
		verbs = append(verbs, "create", "delete")
	}
	return contract.Need(lowerPlural(d), verbs...)
}

// aggregated requires a ClusterRole with a label that grants a permission.
func aggregated(b *contract.Bundle, d *contract.Definition, label string, wanted contract.Permission) contract.Findings {
	var all contract.Grants
	for _, role := range b.OfKind(object.ClusterRole) {
		if role.At("metadata", "labels", label).Text() == "true" {
			all = append(all, b.Permissions().RulesOf(role)...)
		}
	}
	if verb, lacks := all.Lacks(d.Group, wanted); lacks {
		return d.At("spec", "group").Finding("no ClusterRole with the label %s grants %s of %s", label, verb, wanted.Resource)
	}
	return nil
}

func checkAggregation(b *contract.Bundle) (findings contract.Findings) {
	for _, role := range b.OfKind(object.ClusterRole) {
		selectors := role.At("aggregationRule", "clusterRoleSelectors")
		if selectors.Length() == 0 {
			continue
		}
		if rules := role.At("rules"); rules.Length() > 0 {
			findings = append(findings, rules.Finding("Kubernetes overwrites the rules of an aggregated role")...)
		}
		if len(b.Permissions().RulesOf(role)) == role.At("rules").Length() {
			findings = append(findings, selectors.Finding("no ClusterRole of the provider matches the selectors")...)
		}
	}
	return findings
}

func checkSubjects(b *contract.Bundle) contract.Findings {
	return eachSubject(func(subject contract.Value) contract.Findings {
		name, namespace := subject.At("name"), subject.At("namespace").Text()
		isOurs := subject.At("kind").Text() == object.ServiceAccount.Kind && name.Text() != "default"
		if !isOurs || namespace == "" || b.Has(object.ServiceAccount, namespace, name.Text()) {
			return nil // or reported by another rule
		}
		return name.Finding("ServiceAccount %s/%s not found", namespace, name.Text())
	})(b)
}

func eachSubject(check func(subject contract.Value) contract.Findings) func(*contract.Bundle) contract.Findings {
	return eachValue("subjects[]", check, object.RoleBinding, object.ClusterRoleBinding)
}

func checkRoleRefs(b *contract.Bundle) (findings contract.Findings) {
	for _, binding := range b.OfKind(object.RoleBinding, object.ClusterRoleBinding) {
		role := binding.At("roleRef")
		name := role.At("name")
		exists := b.Has(object.ClusterRole, "", name.Text()) || isBuiltIn(name.Text())
		if role.At("kind").Text() == object.Role.Kind {
			exists = b.Has(object.Role, binding.Namespace, name.Text())
		}
		if !exists && name.Text() != "" {
			findings = append(findings, name.Finding("%s %s not found", role.At("kind").Text(), name.Text())...)
		}
	}
	return findings
}

// isBuiltIn reports whether every cluster has a ClusterRole.
func isBuiltIn(name string) bool {
	return strings.HasPrefix(name, "system:") || slices.Contains([]string{"cluster-admin", "admin", "edit", "view"}, name)
}
