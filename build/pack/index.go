// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"errors"
	"fmt"
	"maps"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

// OmittedEntry is an entry of a base index that the packed index does not contain.
type OmittedEntry struct {
	// Digest is the digest of the entry.
	Digest string `json:"digest"`
	// Reason is the reason for the omission.
	Reason string `json:"reason"`
}

// BuildKit marks attestations (descriptions of an image) with these annotations
// (https://github.com/moby/buildkit/blob/master/docs/attestations/attestation-storage.md).
const (
	aboutType   = "vnd.docker.reference.type"
	aboutDigest = "vnd.docker.reference.digest"
)

// Index returns base with each of its images packed as Image does, for the same
// platforms and in the same order. It omits attestations, because the image without
// the bundle that they describe is not in the packed index, and returns the omitted
// entries.
func (p Packer) Index(base v1.ImageIndex, bundle extractor.Bundle) (v1.ImageIndex, []OmittedEntry, error) {
	index, left, err := p.index(base, bundle)
	if err != nil {
		return nil, nil, fmt.Errorf("packing: %w", err)
	}
	return index, left, nil
}

func (p Packer) index(base v1.ImageIndex, bundle extractor.Bundle) (v1.ImageIndex, []OmittedEntry, error) {
	manifest, err := base.IndexManifest()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the base index: %w", err)
	}
	mediaType, err := base.MediaType()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the base index: %w", err)
	}
	var images []mutate.IndexAddendum
	var left []OmittedEntry
	for _, entry := range manifest.Manifests {
		if reason := notPacked(entry); reason != "" {
			left = append(left, OmittedEntry{entry.Digest.String(), reason})
			continue
		}
		image, err := p.child(base, entry, bundle)
		if err != nil {
			return nil, nil, err
		}
		images = append(images, image)
	}
	if len(images) == 0 {
		return nil, nil, &extractor.InvalidError{Err: errors.New("the base index has no image")}
	}
	texts, err := p.indexAnnotations(base, manifest, bundle.Metadata)
	if err != nil {
		return nil, nil, err
	}
	index := mutate.IndexMediaType(mutate.AppendManifests(empty.Index, images...), mediaType)
	if mediaType == types.DockerManifestList { // has no annotations
		return index, left, nil
	}
	return mutate.Annotations(index, texts).(v1.ImageIndex), left, nil
}

// notPacked returns the reason why an entry of an index is not packed; empty for an
// image.
func notPacked(entry v1.Descriptor) string {
	switch {
	case entry.Annotations[aboutType] != "":
		return fmt.Sprintf("%s of %s, which is not in the packed index", entry.Annotations[aboutType], entry.Annotations[aboutDigest])
	case entry.ArtifactType != "" && !types.MediaType(entry.ArtifactType).IsConfig():
		return "an artifact of type " + entry.ArtifactType + ", not an image"
	case entry.MediaType != "" && !entry.MediaType.IsImage():
		return "of media type " + string(entry.MediaType) + ", not an image"
	}
	return ""
}

// child packs an image of base. It keeps the image's descriptor except for size and
// digest.
func (p Packer) child(base v1.ImageIndex, entry v1.Descriptor, bundle extractor.Bundle) (mutate.IndexAddendum, error) {
	image, err := base.Image(entry.Digest)
	if err == nil {
		image, err = p.pack(image, bundle)
	}
	if err != nil {
		return mutate.IndexAddendum{}, fmt.Errorf("image %s for %s in the base index: %w", entry.Digest, platformOf(entry), err)
	}
	return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: entry.Platform, Annotations: entry.Annotations}}, nil
}

func platformOf(entry v1.Descriptor) string {
	if entry.Platform == nil {
		return "no platform"
	}
	return entry.Platform.String()
}

func (p Packer) indexAnnotations(base v1.ImageIndex, manifest *v1.IndexManifest, metadata extractor.Metadata) (map[string]string, error) {
	digest, err := base.Digest()
	if err != nil {
		return nil, fmt.Errorf("reading the base index: %w", err)
	}
	texts := map[string]string{}
	maps.Copy(texts, manifest.Annotations)
	maps.Copy(texts, p.annotations(metadata))
	texts[ocispec.AnnotationBaseImageDigest] = digest.String()
	return texts, nil
}
