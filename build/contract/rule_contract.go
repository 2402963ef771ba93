// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/internal/capicontract"
)

// contractRules are the rules of the theme "contract".
var contractRules = []Rule{{
	ID:       "contract/scope",
	Severity: Error,
	Source:   forInfraCluster("All resources: scope"),
	Why:      "Cluster API finds the objects of a Cluster only in the namespace of the Cluster.",
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
	Why:      "Cluster API's own role allows the groups infrastructure, bootstrap and controlplane of cluster.x-k8s.io. Any other group needs an aggregated role.",
	Fix:      "Use one of these groups, or see rbac/aggregation-label.",
	Check: eachWithRole(func(d *definition) []Finding {
		if slices.Contains(knownGroups, d.Group) {
			return nil
		}
		return []Finding{d.At("spec", "group").finding("Cluster API's role does not include the group")}
	}),
}, {
	ID:       "contract/conditions-shape",
	Severity: Warning,
	Source:   forInfraCluster("InfraCluster: conditions"),
	Why:      "Cluster API reads conditions as a list of objects with type and status, and ignores any other value.",
	Fix:      "Make status.conditions a list of metav1.Condition.",
	Check: eachWithRole(func(d *definition) []Finding {
		var findings []Finding
		for _, pair := range [][2]string{{"", anArray}, {"[]", anObject}, {"[].type", aString}, {"[].status", aString}} {
			findings = append(findings, d.mistyped("status.conditions"+pair[0], pair[1])...)
		}
		return findings
	}),
}, {
	ID:       "contract/label-present",
	Severity: Error,
	Source:   resourceVersions,
	Why:      "Without the label Cluster API does not know the version of the kind with its contract, and no Cluster can use the kind.",
	Fix:      "Label the CRD with cluster.x-k8s.io/v1beta2: <versions>, joined by \"_\"; cluster.x-k8s.io/v1beta1 if it implements the older contract.",
	Check:    eachWithRole(checkLabelPresent),
}, {
	ID:       "contract/label-format",
	Severity: Error,
	Source:   resourceVersions,
	Why:      "Cluster API splits the label at \"_\". Another separator results in versions that do not exist.",
	Fix:      "Write versions such as v1beta1 and v1, joined by \"_\".",
	Check:    eachWithRole(checkLabelFormat),
}, {
	ID:       "contract/label-chosen-served",
	Severity: Error,
	Source:   resourceVersions,
	Why:      "Cluster API uses the highest version in the label of the newest contract and does not check that it is served. If it is not served, every request for the kind fails.",
	Fix:      "Serve the version, or remove it from the label.",
	Check:    eachWithRole(checkChosen),
}, {
	ID:       "contract/label-every-version-served",
	Severity: Warning,
	Source:   resourceVersions,
	Why:      "Each version in the label MUST be available. Cluster API uses only the highest; the others matter when that one is removed.",
	Fix:      "Remove the versions that are not served from the label.",
	Check:    eachWithRole(checkOtherVersions),
}, {
	ID:       "contract/label-current",
	Severity: Warning,
	Source:   contractOverview,
	Why:      "Support of the contract v1beta1 is temporary; its removal is announced for April 2027.",
	Fix:      "Implement the contract v1beta2 and label the CRD with cluster.x-k8s.io/v1beta2: <versions>.",
	Check: eachWithRole(func(d *definition) []Finding {
		if d.Contract != "v1beta1" {
			return nil
		}
		return []Finding{contractOf(d.Object, d.Contract).finding("the newest contract is %s", d.Contract)}
	}),
}, {
	ID:       "contract/label-consistent",
	Severity: Warning,
	Source:   contractOverview,
	Why:      "With two contracts in one provider, Cluster API reads the fields of both for one Cluster.",
	Fix:      "Label all kinds of the provider for the same contract.",
	Check:    checkSameContract,
}, {
	ID:       "contract/label-chosen-is-storage",
	Severity: Info,
	Source:   resourceVersions,
	Why:      "Cluster API reads the version in the label. If another version is stored, each read needs a conversion.",
	Fix:      "Store the version in the label of the newest contract.",
	Check: eachWithRole(func(d *definition) []Finding {
		storage := versionOf(d.Object, d.Version).At("storage")
		if storage.Text() != "false" {
			return nil
		}
		return []Finding{storage.finding("version %s, which Cluster API uses, is not the storage version", d.Version)}
	}),
}, {
	ID:       "contract/label-noncontract",
	Severity: Info,
	Source:   resourceVersions,
	Why:      "Cluster API ignores the label of a kind without a contract. A label with a missing version misleads readers; a common label in a kustomization is a frequent cause.",
	Fix:      "Remove the label, or list only existing versions.",
	Check: eachDefinition(allDefinitions, func(d *definition) []Finding {
		if d.Role != "" {
			return nil
		}
		return checkLabelVersions(d, "")
	}),
}}

func checkLabelFormat(crd *definition) (findings []Finding) {
	for _, contract := range contracts {
		label := contractOf(crd.Object, contract)
		if !label.Exists() {
			continue
		}
		for name := range strings.SplitSeq(label.Text(), "_") {
			if !capicontract.IsVersion(name) {
				findings = append(findings, label.finding("invalid version %q: want a form such as v1beta1", name))
			}
		}
	}
	return findings
}

func checkChosen(crd *definition) []Finding {
	if !capicontract.IsVersion(crd.Version) || served(crd.Object, crd.Version) {
		return nil
	}
	return []Finding{contractOf(crd.Object, crd.Contract).finding("version %s, which Cluster API uses, is not served; served: %s", crd.Version, servedVersions(crd.Object))}
}

func checkOtherVersions(crd *definition) []Finding {
	return checkLabelVersions(crd, crd.Version)
}

// checkLabelVersions checks the versions of all labels, except the version that has its own rule.
func checkLabelVersions(crd *definition, but string) (findings []Finding) {
	for _, contract := range contracts {
		label := contractOf(crd.Object, contract)
		for name := range strings.SplitSeq(label.Text(), "_") {
			hasOwnRule := contract == crd.Contract && name == but
			if capicontract.IsVersion(name) && !hasOwnRule && !served(crd.Object, name) {
				findings = append(findings, label.finding("version %s is not served", name))
			}
		}
	}
	return findings
}

// checkSameContract compares with the contract of the first kind.
func checkSameContract(b *Bundle) (findings []Finding) {
	first := ""
	for _, d := range b.withRole() {
		switch {
		case d.Contract == "" || d.Role == ipamPool:
		case first == "":
			first = d.Contract
		case d.Contract != first:
			findings = append(findings, contractOf(d.Object, d.Contract).finding("the contract is %s, but %s for earlier kinds", d.Contract, first))
		}
	}
	return findings
}

func checkLabelPresent(crd *definition) []Finding {
	if crd.Contract != "" {
		return nil
	}
	names := capicontract.LabelPrefix + strings.Join(contracts, " nor "+capicontract.LabelPrefix)
	return []Finding{crd.At("metadata", "labels").finding("found neither the label %s", names)}
}
