// SPDX-License-Identifier: Apache-2.0

package clusterctl_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/capi-installer/capi-installer/build/clusterctl"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/extractor"
)

func ExampleNew() {
	release, err := clusterctl.New(generate.Options{
		Dir: "testdata/example.yaml", ProviderName: "cluster-api-provider-demo", ProviderType: extractor.Infrastructure, ProviderVersion: "v1.2.3",
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(release.Dir)
	for _, name := range slices.Sorted(maps.Keys(release.Files)) {
		fmt.Println("  " + name)
	}
	// Output:
	// infrastructure-demo/v1.2.3
	//   README.md
	//   infrastructure-components.yaml
	//   metadata.yaml
}
