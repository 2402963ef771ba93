// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/extractor"
)

func ExampleCheck() {
	bundle := extractor.Bundle{
		Metadata: extractor.Metadata{ProviderName: "cluster-api", ProviderType: extractor.Core, ProviderVersion: "v1.10.2"},
		Manifests: []byte("apiVersion: v1\nkind: Service\nmetadata:\n  name: webhook\n  namespace: openshift-cluster-api\n" +
			"  labels: {cluster.x-k8s.io/provider: cluster-api}\nspec:\n  ports: [{port: 84430}]\n"),
	}
	for _, f := range contract.Check(bundle, rules.All()) {
		fmt.Printf("%s:%d: %s: %s: %s [%s]\n", f.File, f.Line, f.Severity, f.Object, f.Message, f.Rule)
	}
	// Output:
	// manifests:8: error: Service openshift-cluster-api/webhook: Invalid value: 84430: must be between 1 and 65535, inclusive [bundle/object-valid]
}
