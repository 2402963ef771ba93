// SPDX-License-Identifier: Apache-2.0

package imagesjson_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/imagesjson"
)

func ExampleParse() {
	images, err := imagesjson.Parse([]byte(`{
  "cluster-capi-controllers": "quay.io/example/capi@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "aws-cluster-api-controllers": "quay.io/example/capa@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, image := range images {
		fmt.Println(image.Name)
	}
	// Output:
	// aws-cluster-api-controllers
	// cluster-capi-controllers
}

func ExampleParse_invalid() {
	_, err := imagesjson.Parse([]byte(`{
  "cluster-capi-controllers": "quay.io/example/capi:latest",
  "aws-cluster-api-controllers": null
}`))
	fmt.Println(err)
	// Output:
	// line 2: "cluster-capi-controllers": "quay.io/example/capi:latest": missing digest (tags are mutable); want <registry>/<repository>@sha256:<64 hex digits>
	// line 3: "aws-cluster-api-controllers": "null": want a string with an image reference
}
