// SPDX-License-Identifier: Apache-2.0

// Package lazyimage implements images and indexes of go-containerregistry that read their manifests and blobs when these are
// needed, from a registry or an OCI layout.
package lazyimage

import (
	"bytes"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Store has manifests and blobs. Descriptors come from verified manifests.
type Store interface {
	// Manifest returns the verified bytes of a manifest or an index.
	Manifest(d v1.Descriptor) ([]byte, error)
	// Config returns the verified bytes of a config.
	Config(d v1.Descriptor) ([]byte, error)
	// Layer returns the bytes of a layer. They can be unverified: go-containerregistry verifies them when it writes them.
	Layer(d v1.Descriptor) (io.ReadCloser, error)
}

// InvalidError reports content that is not a valid image or index.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return e.Err.Error() }
func (e *InvalidError) Unwrap() error { return e.Err }

func invalid(format string, args ...any) error { return &InvalidError{fmt.Errorf(format, args...)} }

// Open returns the image or the index of a descriptor: a v1.Image or a v1.ImageIndex. It reads the manifest of an image.
func Open(store Store, d v1.Descriptor) (mutate.Appendable, error) {
	if d.MediaType.IsIndex() {
		return &index{store, d}, nil
	}
	return openImage(store, d)
}

func openImage(store Store, d v1.Descriptor) (v1.Image, error) {
	return partial.CompressedToImage(&image{store, d})
}

// index implements v1.ImageIndex.
type index struct {
	store      Store
	descriptor v1.Descriptor
}

func (i *index) MediaType() (types.MediaType, error) { return i.descriptor.MediaType, nil }
func (i *index) Digest() (v1.Hash, error)            { return i.descriptor.Digest, nil }
func (i *index) Size() (int64, error)                { return i.descriptor.Size, nil }
func (i *index) RawManifest() ([]byte, error)        { return i.store.Manifest(i.descriptor) }

func (i *index) IndexManifest() (*v1.IndexManifest, error) {
	raw, err := i.RawManifest()
	if err != nil {
		return nil, err
	}
	parsed, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, invalid("parsing index %s: %w", i.descriptor.Digest, err)
	}
	return parsed, nil
}

// Image implements v1.ImageIndex.
func (i *index) Image(digest v1.Hash) (v1.Image, error) {
	d, err := i.child(digest)
	if err != nil {
		return nil, err
	}
	return openImage(i.store, d)
}

// ImageIndex implements v1.ImageIndex.
func (i *index) ImageIndex(digest v1.Hash) (v1.ImageIndex, error) {
	d, err := i.child(digest)
	if err != nil {
		return nil, err
	}
	return &index{i.store, d}, nil
}

func (i *index) child(digest v1.Hash) (v1.Descriptor, error) {
	manifest, err := i.IndexManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, d := range manifest.Manifests {
		if d.Digest == digest {
			return d, nil
		}
	}
	return v1.Descriptor{}, invalid("%s not found in index %s", digest, i.descriptor.Digest)
}

// image implements partial.CompressedImageCore.
type image struct {
	store      Store
	descriptor v1.Descriptor
}

func (i *image) MediaType() (types.MediaType, error) { return i.descriptor.MediaType, nil }
func (i *image) RawManifest() ([]byte, error)        { return i.store.Manifest(i.descriptor) }

func (i *image) RawConfigFile() ([]byte, error) {
	manifest, err := partial.Manifest(i)
	if err != nil {
		return nil, err
	}
	return i.store.Config(manifest.Config)
}

// LayerByDigest implements partial.CompressedImageCore. go-containerregistry also reads the config
// through it.
func (i *image) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	manifest, err := partial.Manifest(i)
	if err != nil {
		return nil, err
	}
	for _, d := range append(manifest.Layers, manifest.Config) {
		if d.Digest == digest {
			return &layer{i.store, d}, nil
		}
	}
	return nil, invalid("layer %s not found in the image", digest)
}

// layer implements partial.CompressedLayer.
type layer struct {
	store      Store
	descriptor v1.Descriptor
}

func (l *layer) Digest() (v1.Hash, error)            { return l.descriptor.Digest, nil }
func (l *layer) Size() (int64, error)                { return l.descriptor.Size, nil }
func (l *layer) MediaType() (types.MediaType, error) { return l.descriptor.MediaType, nil }
func (l *layer) Descriptor() (*v1.Descriptor, error) { return &l.descriptor, nil }
func (l *layer) Compressed() (io.ReadCloser, error)  { return l.store.Layer(l.descriptor) }
