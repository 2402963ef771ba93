// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// crdRules are about CRDs: how Cluster API finds them, and which of their versions it uses.
//
// Cluster API finds the CRD of a reference by its name, and takes the label of
// the newest contract that it knows: "cluster.x-k8s.io/v1beta2: v1beta1_v1beta2" means
// that these versions of the CRD keep the contract v1beta2. Of them it uses the
// highest, in whatever order they are written, and asks nothing further.
var crdRules = []Rule{{
	ID:       "crd/name-plural-group",
	Severity: Error,
	Source:   kubernetes("Create a CustomResourceDefinition", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "The API server refuses a CRD whose name is not <plural>.<group>, and Cluster API finds CRDs by that name.",
	Fix:      "Set metadata.name to <spec.names.plural>.<spec.group>.",
	Check:    func(b *Bundle) []Finding { return each(b.ofKind(crdKind), checkCRDName) },
}, {
	ID:       "contract/label-present",
	Severity: Error,
	Source:   resourceVersions,
	Why:      "Without the label Cluster API knows no version of the kind that keeps its contract, and no Cluster can use it.",
	Fix:      "Label the CRD with cluster.x-k8s.io/v1beta2: <versions>, joined by \"_\"; cluster.x-k8s.io/v1beta1 if it keeps the older contract.",
	Check:    eachContract(checkLabelPresent),
}, {
	ID:       "contract/label-format",
	Severity: Error,
	Source:   resourceVersions,
	Why:      "Cluster API splits the label at \"_\". Of anything else it makes versions that there are not.",
	Fix:      "Write versions such as v1beta1 and v1, joined by \"_\".",
	Check:    eachContract(checkLabelFormat),
}, {
	ID:       "contract/label-chosen-served",
	Severity: Error,
	Source:   resourceVersions,
	Why:      "Cluster API uses the highest version of the newest contract's label, without a look whether it is served. If it is not, every request for the kind fails.",
	Fix:      "Serve the version, or take it out of the label.",
	Check:    eachContract(checkChosen),
}, {
	ID:       "contract/label-every-version-served",
	Severity: Warning,
	Source:   resourceVersions,
	Why:      "Each value MUST be a version that is available. Cluster API uses only the highest, so the others do no harm until that one is removed.",
	Fix:      "Take versions that are no longer served out of the label.",
	Check:    eachContract(checkOtherVersions),
}}

// The contracts that Cluster API knows, the newest first.
var contracts = []string{"v1beta2", "v1beta1"}

const contractLabel = "cluster.x-k8s.io/"

// eachContract makes a check of all CRDs that keep a contract out of one of one CRD.
func eachContract(check func(*Object) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) []Finding { return each(contractCRDs(b), check) }
}

func contractOf(crd *Object, contract string) Value {
	return crd.At("metadata", "labels", contractLabel+contract)
}

func checkCRDName(crd *Object) []Finding {
	want := crd.At("spec", "names", "plural").Text() + "." + crd.At("spec", "group").Text()
	if crd.Name == want {
		return nil
	}
	return []Finding{crd.At("metadata", "name").finding("the name is not %s", want)}
}

var versionPattern = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

func checkLabelFormat(crd *Object) (findings []Finding) {
	for _, contract := range contracts {
		label := contractOf(crd, contract)
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

func checkChosen(crd *Object) []Finding {
	label, versions := chosen(crd)
	if len(versions) == 0 || !versionPattern.MatchString(versions[0]) || served(crd, versions[0]) {
		return nil
	}
	return []Finding{label.finding("version %s, which Cluster API uses, is not served; there are %s", versions[0], servedVersions(crd))}
}

func checkOtherVersions(crd *Object) (findings []Finding) {
	highest, versions := chosen(crd)
	for _, contract := range contracts {
		label := contractOf(crd, contract)
		for name := range strings.SplitSeq(label.Text(), "_") {
			isChosen := label.Path == highest.Path && name == versions[0]
			if versionPattern.MatchString(name) && !isChosen && !served(crd, name) {
				findings = append(findings, label.finding("version %s is not served", name))
			}
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

// contractCRDs are the CRDs that keep a contract beyond doubt: group and kind say
// so, and there is a template of the kind, which the contracts ask for. The templates are among them.
func contractCRDs(b *Bundle) []*Object {
	crds := b.ofKind(crdKind)
	kinds := map[string]bool{}
	for _, crd := range crds {
		kinds[kindOf(crd)] = true
	}
	return slices.DeleteFunc(crds, func(crd *Object) bool {
		kind := strings.TrimSuffix(kindOf(crd), "Template")
		group, name, _ := strings.Cut(kind, "/")
		return !hasContract(group, name) || !kinds[kind] || !kinds[kind+"Template"]
	})
}

// kindOf is the kind that a CRD defines: "infrastructure.cluster.x-k8s.io/AWSCluster".
func kindOf(crd *Object) string {
	return crd.At("spec", "group").Text() + "/" + crd.At("spec", "names", "kind").Text()
}

// hasContract says whether there is a contract for kinds with such a group and
// name. Groups such as vmware.infrastructure.cluster.x-k8s.io count; control planes are in any group.
func hasContract(group, kind string) bool {
	switch {
	case strings.HasSuffix(kind, "ControlPlane"):
		return true
	case strings.HasSuffix("."+group, ".infrastructure.cluster.x-k8s.io"):
		return strings.HasSuffix(kind, "Cluster") || strings.HasSuffix(kind, "Machine") || strings.HasSuffix(kind, "MachinePool")
	case strings.HasSuffix("."+group, ".bootstrap.cluster.x-k8s.io"):
		return strings.HasSuffix(kind, "Config")
	}
	return false
}

func checkLabelPresent(crd *Object) []Finding {
	if label, _ := chosen(crd); label.Text() != "" {
		return nil
	}
	names := contractLabel + strings.Join(contracts, " nor "+contractLabel)
	return []Finding{crd.At("metadata", "labels").finding("there is neither a label %s", names)}
}
