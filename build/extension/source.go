// SPDX-License-Identifier: Apache-2.0

package extension

import "github.com/capi-installer/capi-installer/build/contract"

// The documents that the rules come from.

// book is a page of Cluster API's book about the Runtime SDK.
func book(page, section string) contract.Source {
	return contract.Source{Document: "Runtime SDK", Section: section, URL: "https://cluster-api.sigs.k8s.io/tasks/experimental-features/runtime-sdk/" + page}
}

func general(section string) contract.Source { return book("implement-extensions", section) }
func topology(section string) contract.Source {
	return book("implement-topology-mutation-hook", section)
}

// proposal is the Runtime SDK proposal.
func proposal(section string) contract.Source {
	return contract.Source{Document: "Runtime SDK proposal", Section: section, URL: "https://github.com/kubernetes-sigs/cluster-api/blob/main/docs/proposals/20220221-runtime-SDK.md"}
}

// discoveryCheck is Cluster API's own check of the responses to Discovery.
func discoveryCheck() contract.Source {
	return contract.Source{Document: "Cluster API's runtime client", Section: "defaultAndValidateDiscoveryResponse", URL: "https://github.com/kubernetes-sigs/cluster-api/blob/v1.14.2/internal/runtime/client/client.go"}
}
