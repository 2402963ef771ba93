// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/extractor"
)

// FromImage returns the bundles of an image that is at hand, such as one of an
// OCI layout or of an archive, with the same checks and the default Limits.
// Errors are, or join, errors of type *extractor.Error.
func FromImage(ctx context.Context, image v1.Image, origin extractor.Origin) ([]extractor.Bundle, error) {
	raw, err := image.RawManifest()
	if err != nil {
		return nil, locate(fmt.Errorf("reading the manifest: %w", err), origin.Image, "")
	}
	u := unpacking{limits: Limits{}.orDefaults(), blob: blobsOf(image), layers: (&layers{}).in(nil)}
	bundles, err := u.bundles(ctx, raw, origin)
	return bundles, locate(err, origin.Image, "")
}

// blobsOf returns how to read the config and the layers of an image.
func blobsOf(image v1.Image) blobs {
	return func(_ context.Context, _ string, d v1.Descriptor, read func(io.Reader) error) error {
		if name, err := image.ConfigName(); err == nil && name == d.Digest {
			config, err := image.RawConfigFile()
			if err != nil {
				return err
			}
			return read(bytes.NewReader(config))
		}
		layer, err := image.LayerByDigest(d.Digest)
		if err != nil {
			return err
		}
		body, err := layer.Compressed()
		if err != nil {
			return err
		}
		defer body.Close()
		return read(body)
	}
}

// blobs reads a blob of an image, which is a "config" or a "layer". It may call
// read again from the start if the body ends early.
type blobs func(ctx context.Context, what string, d v1.Descriptor, read func(io.Reader) error) error

// unpacking is how the bundles of one image are read.
type unpacking struct {
	limits Limits
	blob   blobs
	layers *layers
	held   int64 // bytes that layers count
}

// bundles reads the bundles of the image that a verified manifest describes.
func (u *unpacking) bundles(ctx context.Context, raw []byte, origin extractor.Origin) ([]extractor.Bundle, error) {
	manifest, err := parseManifest(raw)
	if err != nil {
		return nil, invalid(err)
	}
	if err := u.check(manifest); err != nil {
		return nil, err
	}
	files, err := u.files(ctx, manifest)
	defer func() { _ = u.layers.hold(-u.held) }()
	if err != nil {
		return nil, err
	}
	return files.Bundles(origin)
}

// files returns what the image shows at the roots of bundles: what its hint
// names, or else what its layers show from the top down to where the answer is decided.
func (u *unpacking) files(ctx context.Context, m *v1.Manifest) (extractor.Files, error) {
	h, err := u.claim(ctx, m)
	if err != nil {
		return nil, err
	}
	if h != nil {
		return u.hinted(ctx, m, h)
	}
	v := newView()
	for _, layer := range slices.Backward(m.Layers) {
		if err := u.show(ctx, v, layer); err != nil {
			return nil, err
		}
		if v.decided() {
			break
		}
	}
	return v.answer()
}

// show adds the next lower layer to what shows.
func (u *unpacking) show(ctx context.Context, v *view, d v1.Descriptor) error {
	before := v.kept
	p, err := u.layer(ctx, d, nil)
	if err == nil {
		err = invalid(v.add(d.Digest, p, u.limits))
	}
	if err == nil {
		err = u.layers.hold(v.kept - before)
	}
	if err != nil {
		return &extractor.Error{Layer: d.Digest.String(), Err: err}
	}
	u.held += v.kept - before
	return nil
}

// invalid marks an error as one of the image itself.
func invalid(err error) error {
	if err == nil || errors.Is(err, extractor.ErrInvalid) {
		return err
	}
	return &extractor.InvalidError{Err: err}
}

// locate says in err, and in each error that it joins, of what image it speaks,
// and from which registry unless the image itself is wrong.
func locate(err error, image, host string) error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var located []error
		for _, err := range joined.Unwrap() {
			located = append(located, locate(err, image, host))
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
	if errors.Is(err, extractor.ErrInvalid) {
		host = ""
	}
	return &extractor.Error{Image: cmp.Or(at.Image, image), Layer: at.Layer, Host: cmp.Or(at.Host, host), File: at.File, Err: at.Err}
}

// parseManifest parses the manifest of one image, and refuses whatever could be
// taken for one: an index, a schema 1 manifest, a page that says "log in".
func parseManifest(raw []byte) (*v1.Manifest, error) {
	var m struct {
		v1.Manifest
		Manifests json.RawMessage `json:"manifests"`
		FSLayers  json.RawMessage `json:"fsLayers"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("parsing the manifest: %w", err)
	}
	switch {
	case m.SchemaVersion != 2 || m.FSLayers != nil:
		return nil, fmt.Errorf("the manifest has schema version %d, want 2", m.SchemaVersion)
	case m.Manifests != nil:
		return nil, errors.New("the manifest lists manifests: it is an index, or means to be both")
	case m.MediaType != "" && !m.MediaType.IsImage():
		return nil, fmt.Errorf("the manifest has the media type %q, which is not an image's", m.MediaType)
	case len(m.Layers) == 0:
		return nil, errors.New("the manifest has no layers: it is not an image's")
	}
	return &m.Manifest, nil
}

// check compares what a manifest promises with the limits, as far as its first bad layer.
func (u *unpacking) check(m *v1.Manifest) error {
	errs := []error{
		invalid(within("layers", len(m.Layers), u.limits.Layers)),
		invalid(checkBlob("config", m.Config, u.limits.Config)),
	}
	var sum int64
	for _, layer := range m.Layers {
		sum += layer.Size
		if err := errors.Join(checkBlob("layer", layer, u.limits.Layer), checkMediaType(layer.MediaType)); err != nil {
			errs = append(errs, &extractor.Error{Layer: layer.Digest.String(), Err: invalid(err)})
			sum = 0
			break
		}
	}
	return errors.Join(append(errs, invalid(within("bytes of all layers", sum, u.limits.Image)))...)
}

// checkBlob checks a descriptor before anybody asks for what it describes.
func checkBlob(what string, d v1.Descriptor, most int64) error {
	switch {
	case d.Digest.Algorithm != "sha256":
		return fmt.Errorf("the %s has the digest %q, want a sha256 digest", what, d.Digest)
	case d.Size <= 0:
		return fmt.Errorf("the %s has the size %d", what, d.Size)
	}
	return within("bytes of the "+what, d.Size, most)
}

// checkMediaType refuses layers that are no archives. Which archive it is, and how compressed, the layer itself says.
func checkMediaType(t types.MediaType) error {
	switch name := strings.ToLower(string(t)); {
	case strings.Contains(name, "encrypted"):
		return fmt.Errorf("the layer is encrypted (media type %q)", t)
	case !strings.HasPrefix(name, "application/vnd.oci.image.layer.") && !strings.HasPrefix(name, "application/vnd.docker.image.rootfs."):
		return fmt.Errorf("the media type %q is not that of an image layer", t)
	}
	return nil
}
