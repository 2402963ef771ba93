// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
)

// commonRules are those that all kinds with a contract have in common.
var commonRules = []Rule{{
	ID:       "classify/role",
	Severity: Info,
	Source:   contractOverview,
	Why:      "The name says that the kind keeps a contract, but it has none of the contract's fields and no template. Rules about fields do not look at it.",
	Fix:      "Nothing, if the kind is for the provider's own use; otherwise add the fields of the contract.",
	Check: eachDefinition(allDefinitions, func(d *definition) []Finding {
		if d.Unconfirmed == "" {
			return nil
		}
		return []Finding{d.At("spec", "names", "kind").finding("the kind has a name like those with the role %s, but none of their fields", d.Unconfirmed)}
	}),
}, {
	ID:       "contract/scope",
	Severity: Error,
	Source:   forInfraCluster("All resources: scope"),
	Why:      "Objects of a Cluster are in its namespace. Cluster API looks for them there, and nowhere else.",
	Fix:      "Set spec.scope to Namespaced.",
	Check: eachWithRole(func(d *definition) []Finding {
		if scope := d.At("spec", "scope"); scope.Text() != "Namespaced" {
			return []Finding{scope.finding("the scope is %q", scope.Text())}
		}
		return nil
	}),
}, {
	ID:       "contract/typemeta",
	Severity: Error,
	Source:   forInfraCluster("All resources: TypeMeta and ObjectMeta field"),
	Why:      "Cluster API reads and writes the metadata of the objects: owners, labels, finalizers.",
	Fix:      "Declare apiVersion and kind as strings and metadata as an object, or none of them.",
	Check: eachWithRole(func(d *definition) (findings []Finding) {
		for field, kind := range map[string]string{"apiVersion": aString, "kind": aString, "metadata": anObject} {
			findings = append(findings, d.mistyped(field, kind)...)
		}
		return findings
	}),
}, {
	ID:       "contract/api-group",
	Severity: Info,
	Source:   forInfraCluster("RBAC"),
	Why:      "Cluster API's own role allows the groups infrastructure, bootstrap and controlplane of cluster.x-k8s.io. Any other has to be added to it by an aggregated role.",
	Fix:      "Use one of these groups, or see rbac/aggregation-label.",
	Check: eachWithRole(func(d *definition) []Finding {
		if slices.Contains(knownGroups, d.Group) {
			return nil
		}
		return []Finding{d.At("spec", "group").finding("the group is not one that Cluster API's role has")}
	}),
}, {
	ID:       "contract/conditions-shape",
	Severity: Warning,
	Source:   forInfraCluster("InfraCluster: conditions"),
	Why:      "Cluster API reads conditions as a list of objects with type and status, and takes anything else for none.",
	Fix:      "Make status.conditions a list of metav1.Condition.",
	Check: eachWithRole(func(d *definition) []Finding {
		var findings []Finding
		for _, pair := range [][2]string{{"", anArray}, {"[]", anObject}, {"[].type", aString}, {"[].status", aString}} {
			findings = append(findings, d.mistyped("status.conditions"+pair[0], pair[1])...)
		}
		return findings
	}),
}}

// knownGroups are those that Cluster API's role has.
var knownGroups = []string{"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"}

func lowerPlural(d *definition) string {
	return strings.ToLower(d.At("spec", "names", "plural").Text())
}
