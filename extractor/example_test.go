// SPDX-License-Identifier: Apache-2.0

package extractor_test

import (
	"fmt"
	"testing/fstest"

	"github.com/capi-installer/capi-installer/extractor"
)

func ExampleFiles_Bundles() {
	files, err := extractor.ReadDir(fstest.MapFS{
		"capi-manifests/metadata.json": {Data: []byte(`{
			"providerName": "cluster-api-provider-aws",
			"providerType": "infrastructure",
			"providerVersion": "v2.10.0",
			"ocpPlatform": "AWS",
			"contentID": "sha256:e25209b6e6c1f782b78132b008b475de169b9153540f2d59a52d4c0e44d15571"
		}`)},
		"capi-manifests/manifests.yaml": {Data: []byte("kind: Namespace\n")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	bundles, err := files.Bundles(extractor.Origin{})
	for _, b := range bundles {
		fmt.Println(b.Metadata.ProviderName, b.Metadata.ProviderVersion, "for", b.Metadata.OCPPlatform)
	}
	fmt.Println(err)
	// Output:
	// cluster-api-provider-aws v2.10.0 for AWS
	// <nil>
}

func ExampleFiles_Bundles_half() {
	files := extractor.Files{"capi-manifests/manifest.yaml": []byte("kind: Namespace\n")}
	_, err := files.Bundles(extractor.Origin{Image: "quay.io/example/capa@sha256:…"})
	fmt.Println(err)
	// Output:
	// image quay.io/example/capa@sha256:…, file capi-manifests/metadata.json: not found: the directory contains manifest.yaml
	// image quay.io/example/capa@sha256:…, file capi-manifests/manifests.yaml: not found: the directory contains manifest.yaml
}
