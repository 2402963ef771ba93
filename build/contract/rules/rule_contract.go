// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/capicontract"
)

// contractRules are the rules of the theme "contract".
var contractRules = []contract.Rule{{
	ID:       "contract/scope",
	Severity: contract.Error,
	Source:   forInfraCluster("All resources: scope"),
	Why:      "Cluster API finds the objects of a Cluster only in the namespace of the Cluster.",
	Fix:      "Set spec.scope to Namespaced.",
	Check: eachWithRole(func(d *contract.Definition) []contract.Finding {
		if scope := d.At("spec", "scope"); scope.Text() != "Namespaced" {
			return []contract.Finding{scope.Finding("the scope is %q", scope.Text())}
		}
		return nil
	}),
}, {
	ID:       "contract/typemeta",
	Severity: contract.Error,
	Source:   forInfraCluster("All resources: TypeMeta and ObjectMeta field"),
	Why:      "Cluster API reads and writes the metadata of the objects: owners, labels, finalizers.",
	Fix:      "Declare apiVersion and kind as strings and metadata as an object, or none of them.",
	Check: eachWithRole(func(d *contract.Definition) (findings []contract.Finding) {
		for field, kind := range map[string]string{"apiVersion": contract.TypeString, "kind": contract.TypeString, "metadata": contract.TypeObject} {
			findings = append(findings, d.Mistyped(field, kind)...)
		}
		return findings
	}),
}, {
	ID:       "contract/conditions-shape",
	Severity: contract.Warning,
	Source:   forInfraCluster("InfraCluster: conditions"),
	Why:      "Cluster API reads conditions as a list of objects with type and status, and ignores any other value.",
	Fix:      "Make status.conditions a list of metav1.Condition.",
	Check: eachWithRole(func(d *contract.Definition) []contract.Finding {
		var findings []contract.Finding
		for _, pair := range [][2]string{{"", contract.TypeArray}, {"[]", contract.TypeObject}, {"[].type", contract.TypeString}, {"[].status", contract.TypeString}} {
			findings = append(findings, d.Mistyped("status.conditions"+pair[0], pair[1])...)
		}
		return findings
	}),
}, {
	ID:       "contract/label-present",
	Severity: contract.Error,
	Source:   resourceVersions,
	Why:      "Without the label Cluster API does not know the version of the kind with its contract, and no Cluster can use the kind.",
	Fix:      "Label the CRD with cluster.x-k8s.io/v1beta2: <versions>, joined by \"_\"; cluster.x-k8s.io/v1beta1 if it implements the older contract.",
	Check:    eachWithRole(checkLabelPresent),
}, {
	ID:       "contract/field-types",
	Severity: contract.Error,
	Source:   contractOverview,
	Why:      "Cluster API reads and writes the field with the type of the contract, and fails at an object with another type.",
	Fix:      "Use the type of the contract.",
	Check:    eachDefinition(contract.Definitions.WithRole, checkFieldTypes),
}, {
	ID:       "contract/field-parts",
	Severity: contract.Error,
	Source:   contractOverview,
	Why:      "The API server silently drops fields that the schema does not have: what Cluster API writes there is lost, and what it reads there is never set.",
	Fix:      "Add the field to the schema, or use the type of Cluster API for the object.",
	Check:    eachDefinition(contract.Definitions.WithRole, checkFieldParts),
}, {
	ID:       "contract/label-format",
	Severity: contract.Error,
	Source:   resourceVersions,
	Why:      "Cluster API splits the label at \"_\". Another separator results in versions that do not exist.",
	Fix:      "Write versions such as v1beta1 and v1, joined by \"_\".",
	Check:    eachWithRole(checkLabelFormat),
}, {
	ID:       "contract/label-chosen-served",
	Severity: contract.Error,
	Source:   resourceVersions,
	Why:      "Cluster API uses the highest version in the label of the newest contract and does not check that it is served. If it is not served, every request for the kind fails.",
	Fix:      "Serve the version, or remove it from the label.",
	Check:    eachWithRole(checkChosen),
}, {
	ID:       "contract/label-every-version-served",
	Severity: contract.Warning,
	Source:   resourceVersions,
	Why:      "Each version in the label MUST be available. Cluster API uses only the highest; the others matter when that one is removed.",
	Fix:      "Remove the versions that are not served from the label.",
	Check:    eachWithRole(checkOtherVersions),
}, {
	ID:       "contract/label-current",
	Severity: contract.Warning,
	Source:   contractOverview,
	Why:      "Support of the contract v1beta1 is temporary; its removal is announced for April 2027.",
	Fix:      "Implement the contract v1beta2 and label the CRD with cluster.x-k8s.io/v1beta2: <versions>.",
	Check: eachWithRole(func(d *contract.Definition) []contract.Finding {
		if d.Contract != "v1beta1" {
			return nil
		}
		return []contract.Finding{contract.LabelOf(d.Object, d.Contract).Finding("the newest contract is %s", d.Contract)}
	}),
}, {
	ID:       "contract/label-consistent",
	Severity: contract.Warning,
	Source:   contractOverview,
	Why:      "With two contracts in one provider, Cluster API reads the fields of both for one Cluster.",
	Fix:      "Label all kinds of the provider for the same contract.",
	Check:    checkSameContract,
}}

func checkLabelFormat(crd *contract.Definition) (findings []contract.Finding) {
	for _, label := range contracts {
		versions := contract.LabelOf(crd.Object, label)
		if !versions.Exists() {
			continue
		}
		for name := range strings.SplitSeq(versions.Text(), "_") {
			if !capicontract.IsVersion(name) {
				findings = append(findings, versions.Finding("invalid version %q: want a form such as v1beta1", name))
			}
		}
	}
	return findings
}

func checkChosen(crd *contract.Definition) []contract.Finding {
	if !capicontract.IsVersion(crd.Version) || contract.ServesVersion(crd.Object, crd.Version) {
		return nil
	}
	return []contract.Finding{contract.LabelOf(crd.Object, crd.Contract).Finding("version %s, which Cluster API uses, is not served; served: %s", crd.Version, contract.ServedVersions(crd.Object))}
}

func checkOtherVersions(crd *contract.Definition) []contract.Finding {
	return checkLabelVersions(crd, crd.Version)
}

// checkLabelVersions checks the versions of all labels, except the version that has its own rule.
func checkLabelVersions(crd *contract.Definition, but string) (findings []contract.Finding) {
	for _, label := range contracts {
		versions := contract.LabelOf(crd.Object, label)
		for name := range strings.SplitSeq(versions.Text(), "_") {
			hasOwnRule := label == crd.Contract && name == but
			if capicontract.IsVersion(name) && !hasOwnRule && !contract.ServesVersion(crd.Object, name) {
				findings = append(findings, versions.Finding("version %s is not served", name))
			}
		}
	}
	return findings
}

// checkSameContract compares with the contract of the first kind.
func checkSameContract(b *contract.Bundle) (findings []contract.Finding) {
	first := ""
	for _, d := range b.Definitions.WithRole() {
		switch {
		case d.Contract == "" || d.Role == contract.IPAMPool:
		case first == "":
			first = d.Contract
		case d.Contract != first:
			findings = append(findings, contract.LabelOf(d.Object, d.Contract).Finding("the contract is %s, but %s for earlier kinds", d.Contract, first))
		}
	}
	return findings
}

func checkLabelPresent(crd *contract.Definition) []contract.Finding {
	if crd.Contract != "" {
		return nil
	}
	names := capicontract.LabelPrefix + strings.Join(contracts, " nor "+capicontract.LabelPrefix)
	return []contract.Finding{crd.At("metadata", "labels").Finding("found neither the label %s", names)}
}

// knownGroups are the groups that Cluster API's own role includes.
var knownGroups = []string{"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"}

func lowerPlural(d *contract.Definition) string {
	return strings.ToLower(d.At("spec", "names", "plural").Text())
}
