// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

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

func forInfraMachinePool(section string) contract.Source {
	return contractPage("InfraMachinePool", "infra-machinepool", section)
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
