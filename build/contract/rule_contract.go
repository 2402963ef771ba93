// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// labelRules are about which version of a kind Cluster API uses.
//
// Cluster API finds the CRD of a reference by its name, and takes the label of
// the newest contract that it knows: "cluster.x-k8s.io/v1beta2: v1beta1_v1beta2" means
// that these versions of the CRD keep the contract v1beta2. Of them it uses the
// highest, in whatever order they are written, and asks nothing further.
var labelRules = []Rule{{
	ID:       "contract/label-present",
	Severity: Error,
	Source:   resourceVersions,
	Why:      "Without the label Cluster API knows no version of the kind that keeps its contract, and no Cluster can use it.",
	Fix:      "Label the CRD with cluster.x-k8s.io/v1beta2: <versions>, joined by \"_\"; cluster.x-k8s.io/v1beta1 if it keeps the older contract.",
	Check:    eachWithRole(checkLabelPresent),
}, {
	ID:       "contract/label-format",
	Severity: Error,
	Source:   resourceVersions,
	Why:      "Cluster API splits the label at \"_\". Of anything else it makes versions that there are not.",
	Fix:      "Write versions such as v1beta1 and v1, joined by \"_\".",
	Check:    eachWithRole(checkLabelFormat),
}, {
	ID:       "contract/label-chosen-served",
	Severity: Error,
	Source:   resourceVersions,
	Why:      "Cluster API uses the highest version of the newest contract's label, without a look whether it is served. If it is not, every request for the kind fails.",
	Fix:      "Serve the version, or take it out of the label.",
	Check:    eachWithRole(checkChosen),
}, {
	ID:       "contract/label-every-version-served",
	Severity: Warning,
	Source:   resourceVersions,
	Why:      "Each value MUST be a version that is available. Cluster API uses only the highest, so the others do no harm until that one is removed.",
	Fix:      "Take versions that are no longer served out of the label.",
	Check:    eachWithRole(checkOtherVersions),
}, {
	ID:       "contract/label-current",
	Severity: Warning,
	Source:   contractOverview,
	Why:      "Cluster API reads the contract v1beta1 for a time only; its removal is announced for April 2027.",
	Fix:      "Keep the contract v1beta2 and label the CRD with cluster.x-k8s.io/v1beta2: <versions>.",
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
	Why:      "Kinds of a provider refer to each other. With two contracts in one provider a Cluster is read by two sets of fields.",
	Fix:      "Label all kinds of the provider for the same contract.",
	Check:    checkSameContract,
}, {
	ID:       "contract/label-chosen-is-storage",
	Severity: Info,
	Source:   resourceVersions,
	Why:      "Cluster API reads the version that the label names. If another one is stored, each read is a conversion.",
	Fix:      "Store the version that the label of the newest contract names.",
	Check: eachWithRole(func(d *definition) []Finding {
		storage := versionOf(d.Object, d.Version).At("storage")
		if storage.Text() != "false" {
			return nil
		}
		return []Finding{storage.finding("version %s, which Cluster API uses, is not the one that is stored", d.Version)}
	}),
}, {
	ID:       "contract/label-noncontract",
	Severity: Info,
	Source:   resourceVersions,
	Why:      "The label of a kind without contract means nothing to Cluster API. One that names a version that there is not misleads readers; a label for all CRDs in a kustomization does that.",
	Fix:      "Take the label off, or name the versions that there are.",
	Check: eachDefinition(allDefinitions, func(d *definition) []Finding {
		if d.Role != "" {
			return nil
		}
		return checkLabelVersions(d, "")
	}),
}}

// The contracts that Cluster API knows, the newest first.
var contracts = []string{"v1beta2", "v1beta1"}

const contractLabel = "cluster.x-k8s.io/"

func contractOf(crd *Object, contract string) Value {
	return crd.At("metadata", "labels", contractLabel+contract)
}

var versionPattern = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

func checkLabelFormat(crd *definition) (findings []Finding) {
	for _, contract := range contracts {
		label := contractOf(crd.Object, contract)
		if !label.Exists() {
			continue
		}
		for name := range strings.SplitSeq(label.Text(), "_") {
			if !versionPattern.MatchString(name) {
				findings = append(findings, label.finding("%q is no version", name))
			}
		}
	}
	return findings
}

// chosen is the label that Cluster API goes by, and its versions, the highest first.
func chosen(crd *Object) (label Value, versions []string) {
	for _, contract := range contracts {
		if label := contractOf(crd, contract); label.Text() != "" {
			versions := strings.Split(label.Text(), "_")
			slices.SortFunc(versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
			return label, versions
		}
	}
	return Value{}, nil
}

func checkChosen(crd *definition) []Finding {
	label, versions := chosen(crd.Object)
	if len(versions) == 0 || !versionPattern.MatchString(versions[0]) || served(crd.Object, versions[0]) {
		return nil
	}
	return []Finding{label.finding("version %s, which Cluster API uses, is not served; there are %s", versions[0], servedVersions(crd.Object))}
}

func checkOtherVersions(crd *definition) []Finding {
	return checkLabelVersions(crd, crd.Version)
}

// checkLabelVersions looks for the versions of all labels, but for the one that has a rule of its own.
func checkLabelVersions(crd *definition, but string) (findings []Finding) {
	highest, _ := chosen(crd.Object)
	for _, contract := range contracts {
		label := contractOf(crd.Object, contract)
		for name := range strings.SplitSeq(label.Text(), "_") {
			hasOwnRule := label.Path == highest.Path && name == but
			if versionPattern.MatchString(name) && !hasOwnRule && !served(crd.Object, name) {
				findings = append(findings, label.finding("version %s is not served", name))
			}
		}
	}
	return findings
}

// checkSameContract takes the contract of the first kind for that of the provider.
func checkSameContract(b *Bundle) (findings []Finding) {
	first := ""
	for _, d := range b.withRole() {
		switch {
		case d.Contract == "" || d.Role == ipamPool:
		case first == "":
			first = d.Contract
		case d.Contract != first:
			findings = append(findings, contractOf(d.Object, d.Contract).finding("the contract is %s here, but %s for kinds before", d.Contract, first))
		}
	}
	return findings
}

func served(crd *Object, name string) bool {
	for _, version := range crd.At("spec", "versions").Items() {
		if version.At("name").Text() == name && version.At("served").Text() == "true" {
			return true
		}
	}
	return false
}

func servedVersions(crd *Object) string {
	var names []string
	for _, version := range crd.At("spec", "versions").Items() {
		if version.At("served").Text() == "true" {
			names = append(names, version.At("name").Text())
		}
	}
	return strings.Join(names, ", ")
}

func checkLabelPresent(crd *definition) []Finding {
	if label, _ := chosen(crd.Object); label.Text() != "" {
		return nil
	}
	names := contractLabel + strings.Join(contracts, " nor "+contractLabel)
	return []Finding{crd.At("metadata", "labels").finding("there is neither a label %s", names)}
}
