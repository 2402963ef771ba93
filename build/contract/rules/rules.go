// SPDX-License-Identifier: Apache-2.0

// Package rules holds the rules that a provider must follow: All returns them, in a file rule_<theme>.go for each theme; rule_kind.go has the rules
// about kinds with a role, and contractFields the fields of the contracts.
// Package contract applies them.
//
// To add a rule, add one entry to rule_<theme>.go, and an archive examples/<rule id>.txtar with two examples: good.yaml,
// and bad.yaml with a comment "# <- Kind name" on each line with a finding ("# <- metadata", on any line, is a finding in
// the metadata).
// A comment "# ocpPlatform: AWS" sets a field of the metadata; the default of imageName is
// registry.example.com/openshift:example. "(and so on, 2000000 bytes)" is a placeholder for a text of this length. A
// test runs the examples, and "capi-manifests explain" shows them. Then run go generate.
//
// The examples of a rule about releases are the folders good/ and bad/ of the archive, with all files of a release. In the files
// good and bad, "# release: infrastructure-example/v1.0.0" is the directory of the release; "# <- metadata.yaml", on any line, is a
// finding in the file as a whole. The tests of capi-manifests have an API server: they run the examples of the rules that an API
// server checks.
package rules

import (
	"embed"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
)

//go:generate env UPDATE=1 go test -run TestMarkdown_UpToDate .

//go:embed examples
var examples embed.FS

// All returns all rules, sorted by ID.
func All() []contract.Rule {
	rules := slices.Concat(bundleRules, clusterctlRules, clusterTemplateRules, contractRules, crdRules,
		installerRules, kindRules, layoutRules, metadataRules, metadataYAMLRules, rbacRules, runtimeExtensionRules, serverRules, startupRules, templateRules, webhookRules)
	for i := range rules {
		rules[i] = rules[i].WithExamples(examples)
	}
	slices.SortFunc(rules, func(a, b contract.Rule) int { return strings.Compare(a.ID, b.ID) })
	return rules
}

// Markdown returns RULES.md: all rules, with an index.
func Markdown() string {
	return contract.MarkdownOf("The checks of `capi-manifests validate`. `capi-manifests explain RULE` shows a rule with its examples.\n"+
		"An error is a violation of a MUST, a warning of a SHOULD. A rule is about bundles for the installer, about releases for clusterctl, or about both.", All()) + uncheckedRequirements
}

// uncheckedRequirements ends RULES.md: requirements of the documents that no rule can check.
const uncheckedRequirements = `
## Requirements that no rule checks

The files of one provider do not show whether it meets every requirement of the documents.

| requirement | checked by |
|---|---|
| a controller waits for its owner, preserves finalizers, respects paused and managed-by, sets conditions, creates the Secrets of its contract (bootstrap data, kubeconfig, certificates), labels Machines, serves address claims | end-to-end tests in a cluster, such as Cluster API's |
| a Runtime Extension answers discovery, is deterministic and fast | ` + "`capi-extension test`" + ` with the running server |
| objects have owner references to their Cluster, and their status can be restored after a move | ` + "`clusterctl move`" + ` |
| a storage version, a field in use, or a hook before the end of its deprecation is not removed | ` + "`capi-manifests diff`" + ` between two releases |
| no object is in two bundles of a platform, a core provider exists, every variable has a value | ` + "`capi-manifests plan`" + ` of a release |
| addresses of Services are free, objects that admission looks up exist, and kinds other than those of common providers, such as PersistentVolume and APIService, are valid | ` + "`capi-manifests validate --against KUBECONFIG`" + ` |
| webhooks are reachable, and the names in spec.unmanagedCRDs are names of CRDs | the cluster |
`

// The documents that rules come from.

const book = "https://cluster-api.sigs.k8s.io/developer/providers/contracts/"

func clusterctl(section string) contract.Source {
	return contract.Source{Document: "clusterctl provider contract", Section: section, URL: book + "clusterctl"}
}

// contractPage returns a page of the book with the contract of a kind.
func contractPage(kind, page, section string) contract.Source {
	return contract.Source{Document: "Contract rules for " + kind, Section: section, URL: book + page}
}

func forInfraCluster(section string) contract.Source {
	return contractPage("InfraCluster", "infra-cluster", section)
}

func forInfraMachine(section string) contract.Source {
	return contractPage("InfraMachine", "infra-machine", section)
}

func forControlPlane(section string) contract.Source {
	return contractPage("ControlPlane", "control-plane", section)
}

func forIPAM(section string) contract.Source { return contractPage("IPAM", "ipam", section) }

// runtimeSDK returns a page of the book about Runtime Extensions.
func runtimeSDK(page, section string) contract.Source {
	return contract.Source{Document: "Runtime SDK", Section: section, URL: "https://cluster-api.sigs.k8s.io/tasks/experimental-features/runtime-sdk/" + page}
}

var contractOverview = contract.Source{Document: "Provider contract", Section: "Overview", URL: book + "overview"}

// resourceVersions is the section about all resources in the first of the contracts; the others have the same text.
var resourceVersions = contract.Source{Document: "Contract rules for InfraCluster", Section: "All resources: version", URL: book + "infra-cluster"}

func kubernetes(section, url string) contract.Source {
	return contract.Source{Document: "Kubernetes documentation", Section: section, URL: "https://kubernetes.io/docs/" + url}
}

// ours returns a requirement of this project's installer: a heading of FORMAT.md.
func ours(section string) contract.Source {
	return contract.Source{Document: "Bundle format", Section: section, URL: contract.FormatPage}
}

const (
	versionsPage = "tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/"
)

// serverRules are the rules of the theme "server".
var serverRules = []contract.Rule{{
	ID:       contract.RuleCRDEstablished,
	Checker:  contract.CheckerServer,
	Severity: contract.Error,
	Source:   kubernetes("Create a CustomResourceDefinition", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "The API server rejects the CRD in a dry run. It is not established then: objects of its kind cannot be created. A dry run does not find names that another CRD of the group has.",
	Fix:      "Correct the problem in the message.",
}, {
	ID:       contract.RuleObjectAccepted,
	Checker:  contract.CheckerServer,
	Severity: contract.Error,
	Source:   kubernetes("Dry-run", "reference/using-api/api-concepts/"),
	Why:      "The API server rejects the object in a dry run. The installer sends the same dry run before it writes any object of a phase. clusterctl fails at the object.",
	Fix:      "Correct the problem in the message.",
}, {
	ID:       contract.RulePodAdmitted,
	Checker:  contract.CheckerServer,
	Severity: contract.Error,
	Source:   kubernetes("Pod Security Admission", "concepts/security/pod-security-admission/"),
	Why:      "The API server accepts a Deployment without checking its pods. If it rejects the pods, none is ever created, and the installation does not complete.",
	Fix:      "Correct the problem in the message.",
}, {
	ID:       contract.RuleTemplateAccepted,
	Checker:  contract.CheckerServer,
	Severity: contract.Error,
	Only:     contract.FormRelease,
	Source:   clusterctl("Workload cluster templates"),
	Why:      "The API server, or a webhook of Cluster API in the cluster, rejects the object of a template or of a ClusterClass. Variables without a default have values that fit the schema; a rejection because of such a value is only an info of server/not-checked.",
	Fix:      "Correct the problem in the message.",
}, {
	ID:       contract.RuleNotChecked,
	Checker:  contract.CheckerServer,
	Severity: contract.Info,
	Source:   kubernetes("Dry-run", "reference/using-api/api-concepts/"),
	Why:      "The API server could not check the object: it does not serve the kind, the namespace is missing, the user lacks a permission, or the object depends on a variable without a default.",
	Fix:      "No change is needed. To check the object, use the kubeconfig of a cluster with the provider.",
}}
