// SPDX-License-Identifier: Apache-2.0

package overlay_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/extractor/remote/overlay"
	"github.com/capi-installer/capi-installer/test/registry"
)

// A whiteout of the upper layer hides a file of the lower one.
func Example() {
	layers := []registry.Layer{
		{Entries: []registry.Entry{registry.File("capi-manifests/old", ""), registry.File("capi-manifests/kept", "")}},
		{Entries: []registry.Entry{registry.Whiteout("capi-manifests/old"), registry.File("capi-manifests/new", "")}},
	}
	o := overlay.New(overlay.Limits{})
	for _, layer := range slices.Backward(layers) {
		archive, err := layer.Tar()
		if err != nil {
			panic(err)
		}
		index, err := overlay.Scanner{}.Scan(context.Background(), bytes.NewReader(archive), int64(len(archive)))
		if err != nil {
			panic(err)
		}
		digest, _, _ := v1.SHA256(bytes.NewReader(archive))
		if err := o.Add(digest, index); err != nil {
			panic(err)
		}
	}
	files, err := o.Files()
	fmt.Println(slices.Sorted(maps.Keys(files)), err)
	// Output: [capi-manifests/ capi-manifests/kept capi-manifests/new] <nil>
}
