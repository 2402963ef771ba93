// SPDX-License-Identifier: Apache-2.0

// Package pack adds bundles to OCI and Docker images and writes images as OCI
// layouts and archives, without a container engine. The same bundle on the same
// base gives the same digest on every machine.
package pack

import (
	"cmp"
	"context"
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/ocilayout"
)

// createdBy is the entry for the layer in the history of a packed image.
const createdBy = "capi-manifests pack"

// Packer adds bundles to images. The zero value sets no time.
type Packer struct {
	// Created is the creation time in the image configuration, with a resolution of one second; nil
	// keeps the time of the base, or none. The layer does not depend on it.
	Created *time.Time
}

// Pack packs with the zero Packer.
func Pack(base v1.Image, bundle extractor.Bundle) (v1.Image, error) {
	return Packer{}.Image(base, bundle)
}

// Image returns base with an additional layer that contains the bundle, or, if base
// is nil, an image for linux/amd64 with only that layer. The image is a function of
// the Packer and the arguments: the same bundle on the same base gives the same
// digest.
//
// The layer hides the bundle's directory in base, so that packing again replaces
// the bundle.
func (p Packer) Image(base v1.Image, bundle extractor.Bundle) (v1.Image, error) {
	image, err := p.pack(base, bundle)
	if err != nil {
		return nil, fmt.Errorf("packing: %w", err)
	}
	return image, nil
}

// filesOf returns the files of a bundle in its original layout.
func filesOf(bundle extractor.Bundle) (extractor.Files, error) {
	if bundle.Profile != "" {
		return bundle.ProfileFiles()
	}
	return bundle.Files()
}

func (p Packer) pack(base v1.Image, bundle extractor.Bundle) (v1.Image, error) {
	files, err := filesOf(bundle)
	if err != nil {
		return nil, &extractor.InvalidError{Err: err}
	}
	mediaType, err := layerType(base)
	if err != nil {
		return nil, err
	}
	layer, err := newLayer(files, mediaType, base != nil)
	if err != nil {
		return nil, err
	}
	switch texts := p.annotations(bundle.Metadata); {
	case base == nil:
		return p.scratch(layer, texts)
	case mediaType == types.DockerLayer: // Docker's manifests have no annotations
		return p.appendLayer(base, layer)
	default:
		return p.appendAnnotated(base, layer, texts)
	}
}

// WriteLayout writes image, a v1.Image or a v1.ImageIndex, as an OCI image layout to the directory dir; see
// ocilayout.Write.
func WriteLayout(ctx context.Context, dir string, image mutate.Appendable, reference string) error {
	if err := ocilayout.Write(ctx, dir, image, reference); err != nil {
		return fmt.Errorf("writing %s: %w", dir, err)
	}
	return nil
}

// WriteArchive writes image as a tar archive of an OCI image layout; see ocilayout.WriteArchive.
func WriteArchive(ctx context.Context, file string, image mutate.Appendable, reference string) error {
	if err := ocilayout.WriteArchive(ctx, file, image, reference); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// annotations returns the annotations that registries display
// (https://github.com/opencontainers/image-spec/blob/main/annotations.md).
func (p Packer) annotations(m extractor.Metadata) map[string]string {
	texts := map[string]string{
		ocispec.AnnotationTitle:       m.ProviderName,
		ocispec.AnnotationVersion:     m.ProviderVersion,
		ocispec.AnnotationDescription: fmt.Sprintf("Cluster API manifests of %s, type %s, for %s", m.ProviderName, m.ProviderType, cmp.Or(m.OCPPlatform, "every platform")),
	}
	if p.Created != nil {
		texts[ocispec.AnnotationCreated] = p.Created.UTC().Format(time.RFC3339)
	}
	return texts
}

// appendAnnotated appends layer to base and adds annotations to the manifest.
func (p Packer) appendAnnotated(base v1.Image, layer v1.Layer, texts map[string]string) (v1.Image, error) {
	digest, err := base.Digest()
	if err != nil {
		return nil, fmt.Errorf("reading the base image's manifest: %w", err)
	}
	image, err := p.appendLayer(base, layer)
	if err != nil {
		return nil, err
	}
	texts[ocispec.AnnotationBaseImageDigest] = digest.String()
	return mutate.Annotations(image, texts).(v1.Image), nil
}

// appendLayer appends layer to base.
func (p Packer) appendLayer(base v1.Image, layer v1.Layer) (v1.Image, error) {
	config, err := base.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the base image's config: %w", err)
	}
	mediaType, err := layer.MediaType()
	if err != nil {
		return nil, err
	}
	created := config.Created
	if p.Created != nil {
		created = v1.Time{Time: p.Created.UTC()}
	}
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, MediaType: mediaType, History: v1.History{Created: created, CreatedBy: createdBy},
	})
	if err == nil && p.Created != nil {
		image, err = mutate.CreatedAt(image, created)
	}
	if err != nil {
		return nil, fmt.Errorf("appending the layer: %w", err)
	}
	return image, nil
}
