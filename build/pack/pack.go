// SPDX-License-Identifier: Apache-2.0

// Package pack adds bundles to OCI and Docker images and writes images as OCI
// layouts and archives, without a container engine. The same bundle on the same
// base gives the same digest on every machine.
package pack

import (
	"context"
	"fmt"
	"maps"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/internal/ocilayout"
)

// createdBy is the entry for the layer in the history of a packed image.
const createdBy = "capi-manifests pack"

// Error reports that a bundle cannot be added to an image.
type Error struct{ Err error }

func (e *Error) Error() string { return "packing: " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

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
// digest. Errors are of type *Error.
//
// The layer hides the bundle's directory in base, so that packing again replaces
// the bundle. The image has a locator of the layer and the digest of the bundle, as
// annotations or, for Docker images, as labels, for readers of earlier releases.
func (p Packer) Image(base v1.Image, bundle extractor.Bundle) (v1.Image, error) {
	image, err := p.pack(base, bundle)
	if err != nil {
		return nil, &Error{err}
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
	digest, err := layer.Digest()
	if err != nil {
		return nil, fmt.Errorf("reading the layer: %w", err)
	}
	hints, texts := remote.LocatorAnnotations(digest, files), p.annotations(bundle.Metadata)
	switch {
	case base == nil:
		maps.DeleteFunc(hints, func(_, value string) bool { return value == "" })
		maps.Copy(texts, hints)
		return p.scratch(layer, texts)
	case mediaType == types.DockerLayer:
		return p.appendLabelled(base, layer, hints)
	}
	maps.Copy(texts, hints)
	return p.appendAnnotated(base, layer, texts)
}

// WriteLayout writes image, a v1.Image or a v1.ImageIndex, as an OCI image layout to the directory dir; see
// ocilayout.Write. Errors are of type *bundle.WriteError.
func WriteLayout(ctx context.Context, dir string, image mutate.Appendable, reference string) error {
	if err := ocilayout.Write(ctx, dir, image, reference); err != nil {
		return &bundle.WriteError{Path: dir, Err: err}
	}
	return nil
}

// WriteArchive writes image as a tar archive of an OCI image layout; see ocilayout.WriteArchive. Errors
// are of type *bundle.WriteError.
func WriteArchive(ctx context.Context, file string, image mutate.Appendable, reference string) error {
	if err := ocilayout.WriteArchive(ctx, file, image, reference); err != nil {
		return &bundle.WriteError{Path: file, Err: err}
	}
	return nil
}
