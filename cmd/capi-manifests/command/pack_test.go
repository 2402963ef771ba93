// SPDX-License-Identifier: Apache-2.0

package command

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/extractor"
)

func TestPackedImage_BaseWithoutPlatform(t *testing.T) {
	manifests := []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
	bundle := extractor.Bundle{Manifests: manifests, Metadata: extractor.Metadata{
		ProviderName: "a", ProviderType: extractor.Core, ProviderVersion: "v1", ContentID: digest.FromBytes(manifests),
	}}
	p := packedImage{}
	if err := p.pack(pack.Packer{}, empty.Image, bundle); err != nil || len(p.Platforms) > 0 {
		t.Errorf("got platforms %v, error %v", p.Platforms, err)
	}
}

func TestPackFlags_RefName(t *testing.T) {
	packed := &packedImage{Metadata: extractor.Metadata{ProviderName: "a", ProviderVersion: "v1"}}
	for push, want := range map[string]string{"": "a:v1", "quay.io/example/a:v2": "quay.io/example/a:v2"} {
		if got := (&packFlags{push: push}).refName(packed); got != want {
			t.Errorf("--push %q: got %q, want %q", push, got, want)
		}
	}
}
