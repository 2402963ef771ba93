// SPDX-License-Identifier: Apache-2.0

// Package remote reads bundles from images in registries, by digest, and from local images. No byte is
// used before its size and digest are verified. The result is the same as unpacking all layers, but is
// computed in memory (package overlay): no file is written under a name from an image, and only the
// necessary layers are read. README.md has a diagram.
//
//	bundles, err := (&remote.Registry{}).Fetch(ctx, "quay.io/example/provider@sha256:…")
//
// Limits bound the cost of hostile or corrupt images. The error for an invalid
// image is an extractor.ErrInvalid; every other error is retryable.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	ggcrtypes "github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	podman "go.podman.io/image/v5/image"
	"go.podman.io/image/v5/types"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

// Registry reads bundles from images in registries. It is an extractor.Fetcher. The zero
// value is ready to use: it has no credentials and no mirrors, and uses HTTPS except for the
// local host. It is safe for concurrent use and must not be copied after first use.
type Registry struct {
	// Client reads manifests and blobs. A nil Client uses no mirrors,
	// credentials, certificates or proxies.
	Client *fetch.Client
	// Platform selects the image of an index. The zero value selects linux with the
	// architecture of this process or, if the index has no such image, its first linux
	// image, because bundles are the same for all architectures.
	Platform v1.Platform
	// Limits bound the cost of one image.
	Limits Limits

	layers layerCache
}

var _ extractor.Fetcher = (*Registry)(nil)

// defaultClient is used if Registry.Client is nil.
var defaultClient fetch.Client

// Fetch implements extractor.Fetcher. The error is an extractor.ErrInvalid if the image is
// verified and invalid. Otherwise it contains a *fetch.Error for each failed source, with
// the step, the host, the HTTP status, the cause and the next step.
func (r *Registry) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	bundles, err := r.fetch(ctx, reference)
	if err != nil {
		return nil, withOrigin(err, reference)
	}
	return bundles, nil
}

func (r *Registry) fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	limits := r.Limits.withDefaults()
	image, err := r.client().Open(ctx, reference)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	raw, _, err := r.manifestOf(ctx, image)
	if err != nil {
		return nil, err
	}
	fetch.MeterOf(ctx).Size.Store(imageSize(raw))
	reader := &imageReader{limits: limits, readBlob: image.Blob, cache: &r.layers}
	return reader.readBundles(ctx, raw, extractor.Origin{Image: reference})
}

// Check calls check with the image at each of its sources, and its payload reference, until it returns nil. Of an index it is the
// image for Platform, as on nodes. lookasides is a registries.d directory with the locations of signatures. Its errors are the errors
// of Fetch.
func (r *Registry) Check(ctx context.Context, reference, lookasides string, check func(context.Context, *podman.UnparsedImage, types.ImageReference) error) error {
	image, err := r.client().Open(ctx, reference)
	if err != nil {
		return withOrigin(err, reference)
	}
	defer image.Close()
	image.UseLookasides(lookasides)
	_, instance, err := r.manifestOf(ctx, image)
	if err != nil {
		return withOrigin(err, reference)
	}
	named, err := image.Reference()
	if err != nil {
		return err
	}
	return image.Each(ctx, "signatures", func(ctx context.Context, from types.ImageSource) error {
		return check(ctx, podman.UnparsedInstance(from, instance), named)
	})
}

func (r *Registry) client() *fetch.Client {
	if r.Client == nil {
		return &defaultClient
	}
	return r.Client
}

// manifestOf returns the verified manifest of an image or, for an index, of its image for Platform with the digest.
func (r *Registry) manifestOf(ctx context.Context, image *fetch.Image) (raw []byte, instance *digest.Digest, err error) {
	limit := r.Limits.withDefaults().Manifest
	raw, err = image.Manifest(ctx, "manifest", v1.Descriptor{Digest: image.Digest(), Size: -1}, limit)
	if err != nil {
		return nil, nil, err
	}
	index, err := parseIndex(raw)
	if err != nil || index == nil {
		return raw, nil, invalid(err)
	}
	child, err := pickPlatform(raw, index, r.Platform)
	if err == nil {
		err = errors.Join(checkManifestDigest(child), checkBlob("manifest", child, limit))
	}
	if err != nil {
		return nil, nil, invalid(fmt.Errorf("reading the index: %w", err))
	}
	raw, err = image.Manifest(ctx, "manifest"+forPlatform(child), child, limit)
	return raw, new(digest.Digest(child.Digest.String())), err
}

// imageSize returns the size of the layers of an image and of its manifest in bytes; the config is not read.
func imageSize(raw []byte) int64 {
	size := int64(len(raw))
	if m, err := parseManifest(raw); err == nil {
		size += m.size()
	}
	return size
}

// parseIndex parses an index, also called a manifest list. It returns nil for the manifest of an image.
func parseIndex(raw []byte) (*v1.IndexManifest, error) {
	var index struct {
		SchemaVersion int64                  `json:"schemaVersion"`
		MediaType     ggcrtypes.MediaType    `json:"mediaType"`
		Manifests     []imagespec.Descriptor `json:"manifests"`
		Layers        json.RawMessage        `json:"layers"`
		FSLayers      json.RawMessage        `json:"fsLayers"`
		Config        json.RawMessage        `json:"config"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, fmt.Errorf("parsing the manifest: %w", err)
	}
	switch {
	case index.Manifests == nil && !index.MediaType.IsIndex():
		return nil, nil
	case index.Layers != nil || index.FSLayers != nil || index.Config != nil:
		return nil, errors.New("the manifest lists layers and manifests: it is ambiguous")
	case index.SchemaVersion != 2:
		return nil, fmt.Errorf("the index has schema version %d, want 2", index.SchemaVersion)
	case index.MediaType != "" && !index.MediaType.IsIndex():
		return nil, fmt.Errorf("the manifest lists manifests and has the media type %q", index.MediaType)
	}
	out := &v1.IndexManifest{SchemaVersion: index.SchemaVersion, MediaType: index.MediaType}
	for _, entry := range index.Manifests {
		out.Manifests = append(out.Manifests, descriptorOf(entry))
	}
	return out, nil
}

// Limit returns a Fetcher with at most n concurrent calls of next.Fetch. Further
// calls wait for a free slot or the end of ctx. n below 1 means 1.
func Limit(next extractor.Fetcher, n int) extractor.Fetcher {
	return &limited{next: next, slots: make(chan struct{}, max(1, n))}
}

type limited struct {
	next  extractor.Fetcher
	slots chan struct{}
}

func (l *limited) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
		return l.next.Fetch(ctx, reference)
	case <-ctx.Done():
		return nil, &extractor.Error{Image: reference, Err: fmt.Errorf("waiting for the fetches of other images: %w", context.Cause(ctx))}
	}
}
