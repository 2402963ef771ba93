// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
)

func ExampleKindOf() {
	kind, err := source.KindOf("quay.io/me/capa:v2.10.0")
	fmt.Println(kind == source.Image, err)
	_, err = source.KindOf("capa")
	fmt.Println(err)
	// Output:
	// true <nil>
	// capa not found: neither a path (file does not exist) nor an image: an image begins with a registry, as in quay.io/capa
}
