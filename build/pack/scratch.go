// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// scratchImage is an OCI image with one layer. It does not use package mutate,
// whose config always has a creation time.
type scratchImage struct {
	layer            v1.Layer
	config, manifest []byte
}

// scratch returns an image for linux/amd64 that contains only layer.
func (p Packer) scratch(layer v1.Layer, texts map[string]string) (v1.Image, error) {
	diffID, err := layer.DiffID()
	if err != nil {
		return nil, fmt.Errorf("reading the layer: %w", err)
	}
	descriptor, err := partial.Descriptor(layer)
	if err != nil {
		return nil, fmt.Errorf("reading the layer: %w", err)
	}
	config, err := json.Marshal(ocispec.Image{
		Created:  p.Created,
		Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.Digest(diffID.String())}},
		History:  []ocispec.History{{Created: p.Created, CreatedBy: createdBy}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the image's config: %w", err)
	}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(config), Size: int64(len(config))},
		Layers: []ocispec.Descriptor{{
			MediaType: string(descriptor.MediaType), Digest: digest.Digest(descriptor.Digest.String()), Size: descriptor.Size,
		}},
		Annotations: texts,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the image's manifest: %w", err)
	}
	return partial.CompressedToImage(scratchImage{layer, config, manifest})
}

func (i scratchImage) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (i scratchImage) RawConfigFile() ([]byte, error)      { return i.config, nil }
func (i scratchImage) RawManifest() ([]byte, error)        { return i.manifest, nil }

// LayerByDigest returns the layer if it has the digest.
func (i scratchImage) LayerByDigest(hash v1.Hash) (partial.CompressedLayer, error) {
	own, err := i.layer.Digest()
	if err != nil {
		return nil, err
	}
	if own != hash {
		return nil, fmt.Errorf("the image has no layer %s", hash)
	}
	return i.layer, nil
}
