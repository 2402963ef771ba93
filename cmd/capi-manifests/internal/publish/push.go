// SPDX-License-Identifier: Apache-2.0

// Package publish packs bundles into images, and writes images and their signatures to registries.
package publish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	ggcrtransport "github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor/signature"
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

// Sign signs manifests, given by digest, in the registry of a reference, and
// returns the tags of the signatures. identity is the image name that the
// signatures state; empty means the reference.
func Sign(ctx context.Context, key *signature.Key, image name.Reference, identity string, digests []digest.Digest) ([]string, error) {
	if identity == "" {
		identity = strings.Replace(image.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	}
	var tags []string
	for _, manifest := range digests {
		tag := image.Context().Tag(signature.AttachmentTag(manifest))
		at, options, err := source.Target(ctx, tag)
		if err != nil {
			return tags, err
		}
		if err := attach(key, at, identity, manifest, options); err != nil {
			return tags, fmt.Errorf("signing %s: %w", image.Context().Digest(manifest.String()).Name(), source.WithAdvice(err, tag.Context()))
		}
		tags = append(tags, tag.Name())
	}
	return tags, nil
}

// attach adds a signature to the attachment at a tag.
func attach(key *signature.Key, tag name.Reference, identity string, manifest digest.Digest, options []ggcr.Option) error {
	before, err := ggcr.Image(tag, options...)
	if failed, ok := errors.AsType[*ggcrtransport.Error](err); ok && failed.StatusCode == http.StatusNotFound {
		before, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reading existing signatures: %w", err)
	}
	attachment, err := key.Attach(before, identity, manifest)
	if err != nil || attachment == before {
		return err
	}
	return ggcr.Write(tag, attachment, options...)
}
