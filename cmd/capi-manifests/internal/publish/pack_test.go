// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/extractor"
)

func TestPacked_BaseWithoutPlatform(t *testing.T) {
	manifests := []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
	bundle := extractor.Bundle{Manifests: manifests, Metadata: extractor.Metadata{
		ProviderName: "a", ProviderType: extractor.Core, ProviderVersion: "v1", ContentID: digest.FromBytes(manifests),
	}}
	p := Packed{}
	if err := p.Pack(pack.Packer{}, empty.Image, bundle); err != nil || len(p.Platforms) > 0 {
		t.Errorf("got platforms %v, error %v", p.Platforms, err)
	}
}
