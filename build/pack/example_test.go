// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"fmt"
	"log"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/extractor"
)

// Pack puts a bundle into an image that contains nothing else.
func ExamplePack() {
	manifests := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hello\n  namespace: openshift-cluster-api\n")
	image, err := pack.Pack(nil, extractor.Bundle{
		Metadata: extractor.Metadata{
			ProviderName: "cluster-api-provider-demo", ProviderType: extractor.Infrastructure, ProviderVersion: "v1.0.0",
			OCPPlatform: "AWS", ContentID: digest.FromBytes(manifests),
		},
		Manifests: manifests,
	})
	if err != nil {
		log.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(manifest.MediaType)
	fmt.Println(manifest.Annotations["org.opencontainers.image.description"])
	// Output:
	// application/vnd.oci.image.manifest.v1+json
	// Cluster API manifests of cluster-api-provider-demo, type infrastructure, for AWS
}
