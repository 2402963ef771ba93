// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"fmt"
	"log"

	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/test/registry"
)

func ExampleRegistry() {
	reg, err := registry.Start(registry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer reg.Close()
	image, err := registry.Image(registry.Layer{Txtar: `
-- capi-operator-manifests/default/metadata.yaml --
name: core
attributes:
  type: core
  version: v1.13.0
-- capi-operator-manifests/default/manifests.yaml --
apiVersion: v1
kind: Namespace
metadata:
  name: capi-system
`})
	if err != nil {
		log.Fatal(err)
	}
	reference, err := reg.Push("openshift/cluster-api", image)
	if err != nil {
		log.Fatal(err)
	}

	puller := &fetch.Client{}
	fetcher := remote.Limit(&remote.Registry{Client: puller}, 4)
	bundles, err := fetcher.Fetch(context.Background(), reference)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range bundles {
		fmt.Println(b.Profile, b.Metadata.ProviderName, b.Metadata.ProviderType, b.Metadata.ProviderVersion, len(b.Manifests))
	}
	// Output: default core core v1.13.0 61
}
