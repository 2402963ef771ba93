// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"fmt"
	"log"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
)

// A bundle becomes an image that holds nothing else.
func ExamplePack() {
	manifests := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hello\n  namespace: openshift-cluster-api\n")
	image, err := build.Pack(nil, extractor.Bundle{
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

// The transforms that Generate applies, in their order.
func ExampleTransforms() {
	for _, transform := range build.Transforms() {
		fmt.Println(transform.Name)
	}
	// Output:
	// drop-namespace-and-secret
	// cert-manager-to-service-ca
	// namespace
	// infra-cluster-protection
	// variable-keys
	// workload-annotations
	// priority-class
	// termination-message-policy
	// resource-requests
	// pull-policy
	// image-placeholder
}
