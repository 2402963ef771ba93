// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/remote/overlay"
)

// FromImage returns the bundles of a local image, for example from an OCI layout
// or an archive, with the same checks as Registry and the default Limits. Errors
// are, or join, errors of type *extractor.Error.
func FromImage(ctx context.Context, image v1.Image, origin extractor.Origin) ([]extractor.Bundle, error) {
	raw, err := image.RawManifest()
	if err != nil {
		return nil, withOrigin(fmt.Errorf("reading the manifest: %w", err), origin.Image)
	}
	r := imageReader{limits: Limits{}.withDefaults(), readBlob: localBlobs(image), cache: &layerCache{}}
	bundles, err := r.readBundles(ctx, raw, origin)
	return bundles, withOrigin(err, origin.Image)
}

// localBlobs returns a function that reads the layers of a local image. A digest mismatch is an
// extractor.ErrInvalid, because a retry does not help.
func localBlobs(image v1.Image) blobs {
	return func(_ context.Context, _ string, d v1.Descriptor, read func(io.Reader) error) error {
		layer, err := image.LayerByDigest(d.Digest)
		if err != nil {
			return err
		}
		body, err := layer.Compressed()
		if err != nil {
			return err
		}
		defer body.Close()
		err = fetch.ReadVerified(body, d, d.Size, read)
		if _, ok := errors.AsType[*fetch.DigestError](err); ok {
			return invalid(err)
		}
		return err
	}
}

// blobs reads a layer of an image, as fetch.Image.Blob does: the body returns io.EOF only after
// it was verified, and read is called again from the start if the body fails.
type blobs func(ctx context.Context, step string, d v1.Descriptor, read func(io.Reader) error) error

// imageReader reads the bundles of one image.
type imageReader struct {
	limits   Limits
	readBlob blobs
	cache    *layerCache
	reserved int64 // bytes reserved in the cache
}

// readBundles reads the bundles of the image with a verified manifest.
func (r *imageReader) readBundles(ctx context.Context, raw []byte, origin extractor.Origin) ([]extractor.Bundle, error) {
	manifest, err := parseManifest(raw)
	if err != nil {
		return nil, invalid(err)
	}
	if err := r.checkManifest(manifest); err != nil {
		return nil, err
	}
	files, err := r.readFiles(ctx, manifest)
	defer func() { _ = r.cache.reserve(-r.reserved) }()
	if err != nil {
		return nil, err
	}
	return files.Bundles(origin)
}

// readFiles returns the visible files at the roots of bundles. It reads layers from the top, until no lower layer can
// change the result.
func (r *imageReader) readFiles(ctx context.Context, m *imageManifest) (extractor.Files, error) {
	o := overlay.New(r.limits.Contents)
	for n, layer := range slices.Backward(m.layers) {
		if err := r.addLayer(ctx, o, fmt.Sprintf("layer %d of %d", n+1, len(m.layers)), layer); err != nil {
			return nil, err
		}
		if o.Decided() {
			break
		}
	}
	return o.Files()
}

// addLayer adds the next lower layer to an overlay.
func (r *imageReader) addLayer(ctx context.Context, o *overlay.Overlay, step string, d v1.Descriptor) error {
	before := o.Size()
	index, err := r.layerIndex(ctx, step, d)
	if err == nil {
		err = invalid(o.Add(d.Digest, index))
	}
	if err == nil {
		err = r.cache.reserve(o.Size() - before)
	}
	if err != nil {
		return &extractor.Error{Layer: d.Digest.String(), Err: err}
	}
	r.reserved += o.Size() - before
	return nil
}

// invalid marks an error as an extractor.ErrInvalid.
func invalid(err error) error { return extractor.AsInvalid(err) }

// withOrigin adds the image to err and to each error that it joins.
func withOrigin(err error, image string) error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var located []error
		for _, err := range joined.Unwrap() {
			located = append(located, withOrigin(err, image))
		}
		if len(located) == 1 {
			return located[0]
		}
		return errors.Join(located...)
	}
	at, ok := err.(*extractor.Error) //nolint:errorlint // only the outermost one is rewritten
	if !ok {
		at = &extractor.Error{Err: err}
	}
	return &extractor.Error{Image: cmp.Or(at.Image, image), Layer: at.Layer, File: at.File, Err: at.Err}
}
