// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

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

// appendLabelled appends layer to base and adds labels to the config, because
// Docker's manifests have no annotations.
func (p Packer) appendLabelled(base v1.Image, layer v1.Layer, labels map[string]string) (v1.Image, error) {
	image, err := p.appendLayer(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the image's config: %w", err)
	}
	config = config.DeepCopy()
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	maps.Copy(config.Config.Labels, labels)
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, fmt.Errorf("writing the image's labels: %w", err)
	}
	return image, nil
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
