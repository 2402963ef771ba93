// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"slices"
	"testing"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
)

// crdOf returns a CRD of a kind with one field in its status.
func crdOf(group, kind, field string) string {
	return "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x, labels: {cluster.x-k8s.io/v1beta1: v1}}\nspec:\n  group: " + group +
		"\n  names: {kind: " + kind + ", plural: x}\n  versions:\n  - name: v1\n    schema: {openAPIV3Schema: {properties: {status: {properties: {" + field + ": {}}}}}}\n"
}

func TestProviderTypes(t *testing.T) {
	controlPlane := crdOf("controlplane.example.com", "KamajiControlPlane", "initialized")
	bootstrap := crdOf("bootstrap.cluster.x-k8s.io", "K0sConfig", "dataSecretName")
	for _, test := range []struct {
		label, manifests string
		want             []extractor.ProviderType
	}{
		{"infrastructure-aws", controlPlane, []extractor.ProviderType{extractor.Infrastructure}},
		{"cluster-api", "", []extractor.ProviderType{extractor.Core}},
		{"controlplane-gardener", bootstrap, []extractor.ProviderType{extractor.ControlPlane}},
		{"kamaji", controlPlane, []extractor.ProviderType{extractor.ControlPlane}},
		{"k0sproject-k0smotron", controlPlane + bootstrap, []extractor.ProviderType{extractor.Bootstrap, extractor.ControlPlane}},
		{"", crdOf("cluster.x-k8s.io", "Cluster", "phase"), []extractor.ProviderType{extractor.Core}},
		{"fleet", "", nil},
	} {
		if got := contract.ProviderTypes(test.label, []byte(test.manifests)); !slices.Equal(got, test.want) {
			t.Errorf("label %q: got %v, want %v", test.label, got, test.want)
		}
	}
}
