// SPDX-License-Identifier: Apache-2.0

// Package publish packs bundles into images, and writes images and their signatures to registries.
package publish

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
)

// Push writes an image or an index to the registry of a reference, never to a mirror.
func Push(ctx context.Context, target name.Reference, entry mutate.Appendable) error {
	at, options, err := source.Target(ctx, target)
	if err != nil {
		return err
	}
	if index, is := entry.(v1.ImageIndex); is {
		return source.WithAdvice(ggcr.WriteIndex(at, index, options...), target.Context())
	}
	return source.WithAdvice(ggcr.Write(at, entry.(v1.Image), options...), target.Context())
}

// Platforms returns the platforms of an image or an index, such as linux/amd64.
func Platforms(image mutate.Appendable) ([]string, error) {
	index, is := image.(v1.ImageIndex)
	if !is {
		config, err := image.(v1.Image).ConfigFile()
		if err != nil {
			return nil, err
		}
		if config.Platform() == nil { // the base has no platform
			return nil, nil
		}
		return []string{config.Platform().String()}, nil
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var platforms []string
	for _, entry := range manifest.Manifests {
		if entry.Platform != nil {
			platforms = append(platforms, entry.Platform.String())
		}
	}
	return platforms, nil
}

// Digests returns the digest of an image, or the digests of an index and of its
// images.
func Digests(image mutate.Appendable) ([]digest.Digest, error) {
	own, err := image.Digest()
	if err != nil {
		return nil, err
	}
	digests := []digest.Digest{digest.Digest(own.String())}
	index, is := image.(v1.ImageIndex)
	if !is {
		return digests, nil
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the index: %w", err)
	}
	for _, entry := range manifest.Manifests {
		digests = append(digests, digest.Digest(entry.Digest.String()))
	}
	return digests, nil
}
