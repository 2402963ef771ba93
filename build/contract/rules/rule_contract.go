// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/capicontract"
)

// contractRules are the rules of the theme "contract".
var contractRules = []contract.Rule{{
	ID:       "contract/scope",
	Severity: contract.Error,
	Source:   forInfraCluster("All resources: scope"),
	Why:      "Cluster API finds the objects of a Cluster only in the namespace of the Cluster.",
	Fix:      "Set spec.scope to Namespaced.",
	Check: eachWithRole(func(d *contract.Definition) contract.Findings {
		if scope := d.At("spec", "scope"); scope.Text() != "Namespaced" {
			return scope.Finding("the scope is %q", scope.Text())
		}
		return nil
	}),
}, {
	ID:       "contract/field-present",
	Severity: contract.Error,
	Source:   contractOverview,
	Why:      "Cluster API waits for the field, or reads it, in each object of the kind. Without it the Cluster, the Machine or the MachinePool never becomes ready.",
	Fix:      "Add the field of the contract to the version that Cluster API uses.",
	Check:    eachDefinition(contract.Definitions.WithRole, checkMissing(contract.Error)),
}, {
	ID:       "contract/field-recommended",
	Severity: contract.Warning,
	Source:   contractOverview,
	Why:      "The contract recommends the field: conditions explain to users why an object is not ready, ClusterClasses set versions and machines, and autoscalers read counters.",
	Fix:      "Add the field of the contract to the version that Cluster API uses.",
	Check:    eachDefinition(contract.Definitions.WithRole, checkMissing(contract.Warning)),
}, {
	ID:       "contract/field-optional",
	Severity: contract.Warning,
	Source:   contractOverview,
	Why:      "Users and ClusterClasses create the object before the value is known; the controller sets it later.",
	Fix:      "Make the field optional: +optional in Go.",
	Check:    eachDefinition(contract.Definitions.WithRole, checkSetLater),
}, {
	ID:       "contract/kind-present",
	Severity: contract.Warning,
	Source:   contractOverview,
	Why:      "A provider of the type usually defines kinds with the role. Without them, a Cluster or a Machine cannot refer to the provider.",
	Fix:      "Add the CRD, such as ExampleMachine in infrastructure.cluster.x-k8s.io; correct providerType if it is wrong.",
	Check:    checkKindsPresent,
}, {
	ID:       "contract/template",
	Severity: contract.Warning,
	Source:   contractOverview,
	Why:      "ClusterClasses, MachineDeployments and control planes create objects from templates. If no kind of machines or of bootstrap data has a template, the finding is an error: users could only create single Machines.",
	Fix:      "Add the CRD <kind>Template to the same group.",
	Check:    checkTemplatesPresent,
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
	Check: eachWithRole(func(d *contract.Definition) contract.Findings {
		if d.Contract != "v1beta1" {
			return nil
		}
		return contract.LabelOf(d.Object, d.Contract).Finding("the newest contract is %s", d.Contract)
	}),
}, {
	ID:       "contract/label-consistent",
	Severity: contract.Warning,
	Source:   contractOverview,
	Why:      "With two contracts in one provider, Cluster API reads the fields of both for one Cluster.",
	Fix:      "Label all kinds of the provider for the same contract.",
	Check:    checkSameContract,
}}

func checkLabelFormat(crd *contract.Definition) (findings contract.Findings) {
	for _, label := range contracts {
		versions := contract.LabelOf(crd.Object, label)
		if !versions.Exists() {
			continue
		}
		for name := range strings.SplitSeq(versions.Text(), "_") {
			if !capicontract.IsVersion(name) {
				findings = append(findings, versions.Finding("invalid version %q: want a form such as v1beta1", name)...)
			}
		}
	}
	return findings
}

func checkChosen(crd *contract.Definition) contract.Findings {
	if !capicontract.IsVersion(crd.Version) || contract.ServesVersion(crd.Object, crd.Version) {
		return nil
	}
	return contract.LabelOf(crd.Object, crd.Contract).Finding("version %s, which Cluster API uses, is not served; served: %s", crd.Version, contract.ServedVersions(crd.Object))
}

func checkOtherVersions(crd *contract.Definition) contract.Findings {
	return checkLabelVersions(crd, crd.Version)
}

// checkLabelVersions checks the versions of all labels, except the version that has its own rule.
func checkLabelVersions(crd *contract.Definition, but string) (findings contract.Findings) {
	for _, label := range contracts {
		versions := contract.LabelOf(crd.Object, label)
		for name := range strings.SplitSeq(versions.Text(), "_") {
			hasOwnRule := label == crd.Contract && name == but
			if capicontract.IsVersion(name) && !hasOwnRule && !contract.ServesVersion(crd.Object, name) {
				findings = append(findings, versions.Finding("version %s is not served", name)...)
			}
		}
	}
	return findings
}

// checkSameContract compares with the contract of the first kind.
func checkSameContract(b *contract.Bundle) (findings contract.Findings) {
	first := ""
	for _, d := range b.Definitions.WithRole() {
		switch {
		case d.Contract == "" || d.Role == contract.IPAMPool:
		case first == "":
			first = d.Contract
		case d.Contract != first:
			findings = append(findings, contract.LabelOf(d.Object, d.Contract).Finding("the contract is %s, but %s for earlier kinds", d.Contract, first)...)
		}
	}
	return findings
}

func checkLabelPresent(crd *contract.Definition) contract.Findings {
	if crd.Contract != "" {
		return nil
	}
	names := capicontract.LabelPrefix + strings.Join(contracts, " nor "+capicontract.LabelPrefix)
	return crd.At("metadata", "labels").Finding("found neither the label %s", names)
}

// knownGroups are the groups that Cluster API's own role includes.
var knownGroups = []string{"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"}

func lowerPlural(d *contract.Definition) string {
	return strings.ToLower(d.At("spec", "names", "plural").Text())
}

// rolesOf are the roles of the kinds that a provider of a type usually defines.
var rolesOf = map[extractor.ProviderType][]contract.Role{
	extractor.Infrastructure: {contract.InfraCluster, contract.InfraMachine}, extractor.Bootstrap: {contract.BootstrapConfig},
	extractor.ControlPlane: {contract.ControlPlane}, extractor.IPAM: {contract.IPAMPool},
}

// checkKindsPresent finds no error in a provider that clusterctl installs, such as a simulator without kinds with a contract.
func checkKindsPresent(b *contract.Bundle) (findings contract.Findings) {
	for _, role := range rolesOf[b.Metadata.ProviderType] {
		if len(b.Definitions.Of(role)) == 0 {
			findings = append(findings, metadataFinding("providerType", "no kind of the provider has the role %s", role)...)
		}
	}
	return findings
}

func checkTemplatesPresent(b *contract.Bundle) (findings contract.Findings) {
	for _, role := range []contract.Role{contract.InfraCluster, contract.InfraMachine, contract.InfraMachinePool, contract.ControlPlane, contract.BootstrapConfig} {
		kinds := b.Definitions.Of(role)
		var missing contract.Findings
		for _, d := range kinds {
			if b.Definitions.Kind(d.Group, d.DefinedKind+"Template") == nil && !strings.HasSuffix(d.DefinedKind, "MachinePoolMachine") { // the machines of a pool need none
				missing = append(missing, d.At("spec", "names", "kind").Finding("CRD of %sTemplate not found", d.DefinedKind)...)
			}
		}
		if len(missing) > 0 && len(missing) == len(kinds) && (role == contract.InfraMachine || role == contract.BootstrapConfig) {
			missing = missing[:1].As(contract.Error)
		}
		findings = append(findings, missing...)
	}
	return findings
}
