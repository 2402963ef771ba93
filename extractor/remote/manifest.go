// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/overlay"
)

// imageManifest is the manifest of an image, of any format.
type imageManifest struct {
	layers []v1.Descriptor // from the bottom
	config v1.Descriptor
}

// size returns the stated size of the layers in bytes.
func (m *imageManifest) size() (sum int64) {
	for _, layer := range m.layers {
		sum += max(0, layer.Size)
	}
	return sum
}

// parseManifest parses the verified manifest of one image, and rejects other content, such as an index or a login page.
func parseManifest(raw []byte) (*imageManifest, error) {
	var m struct {
		SchemaVersion int                    `json:"schemaVersion"`
		MediaType     types.MediaType        `json:"mediaType"`
		Config        imagespec.Descriptor   `json:"config"`
		Layers        []imagespec.Descriptor `json:"layers"`
		Manifests     json.RawMessage        `json:"manifests"`
		FSLayers      json.RawMessage        `json:"fsLayers"`
		History       json.RawMessage        `json:"history"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("parsing the manifest: %w", err)
	}
	switch {
	case m.SchemaVersion == 1:
		return nil, errors.New("the manifest has the format docker schema 1: push the image again with a manifest of schema version 2")
	case m.SchemaVersion != 2:
		return nil, fmt.Errorf("the manifest has schema version %d, want 2", m.SchemaVersion)
	case m.FSLayers != nil || m.History != nil:
		return nil, errors.New("the manifest has the fields of schema versions 1 and 2: it is ambiguous")
	case m.Manifests != nil:
		return nil, errors.New("the manifest lists manifests: it is an index, or both")
	case m.MediaType != "" && !m.MediaType.IsImage():
		return nil, fmt.Errorf("the manifest has the media type %q, which is not an image's", m.MediaType)
	case m.Layers == nil:
		return nil, errors.New("the manifest has no layers: it is not an image's")
	}
	out := &imageManifest{config: descriptorOf(m.Config)}
	for _, layer := range m.Layers {
		out.layers = append(out.layers, descriptorOf(layer))
	}
	return out, nil
}

// descriptorOf returns a descriptor of go-containerregistry, whose parser only accepts SHA-256.
func descriptorOf(d imagespec.Descriptor) v1.Descriptor {
	out := v1.Descriptor{MediaType: types.MediaType(d.MediaType), Digest: hashOf(d.Digest), Size: d.Size, URLs: d.URLs}
	if p := d.Platform; p != nil {
		out.Platform = &v1.Platform{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant, OSVersion: p.OSVersion, OSFeatures: p.OSFeatures}
	}
	return out
}

// hashOf does not validate the digest.
func hashOf(d digest.Digest) v1.Hash {
	algorithm, hex, _ := strings.Cut(d.String(), ":")
	return v1.Hash{Algorithm: algorithm, Hex: hex}
}

// checkManifest compares the sizes in a manifest with the limits, up to the first invalid layer.
func (r *imageReader) checkManifest(m *imageManifest) error {
	errs := []error{
		invalid(overlay.CheckLimit("layers", len(m.layers), r.limits.Layers)),
		invalid(errors.Join(checkBlob("config", m.config, math.MaxInt64), checkConfig(m.config.MediaType))),
	}
	sum := m.size()
	for _, layer := range m.layers {
		if err := r.checkLayer(layer); err != nil {
			errs = append(errs, &extractor.Error{Layer: layer.Digest.String(), Err: invalid(err)})
			sum = 0
			break
		}
	}
	return errors.Join(append(errs, invalid(overlay.CheckLimit("bytes of all layers", sum, r.limits.Image)))...)
}

// checkLayer also rejects encrypted and foreign layers. The bytes of a layer, not its media type, determine its format and
// compression, as in other unpackers.
func (r *imageReader) checkLayer(d v1.Descriptor) error {
	err := checkBlob("layer", d, r.limits.Layer)
	if strings.Contains(strings.ToLower(string(d.MediaType)), "encrypted") {
		err = errors.Join(err, fmt.Errorf("the layer is encrypted (media type %q)", d.MediaType))
	}
	if len(d.URLs) > 0 {
		err = errors.Join(err, fmt.Errorf("the layer is a foreign layer, with URLs outside of the registry (media type %q): push the image with the layer", d.MediaType))
	}
	return err
}

// checkBlob checks a descriptor before its blob is requested.
func checkBlob(what string, d v1.Descriptor, most int64) error {
	if err := checkDigest(what, d); err != nil {
		return err
	}
	if d.Size < 0 {
		return fmt.Errorf("the %s has the size %d", what, d.Size)
	}
	return overlay.CheckLimit("bytes of the "+what, d.Size, most)
}

// checkDigest accepts the digests of blobs that containers/image can verify: SHA-256, SHA-384 and SHA-512.
func checkDigest(what string, d v1.Descriptor) error {
	if err := digest.Digest(d.Digest.String()).Validate(); err != nil {
		return fmt.Errorf("the %s has the digest %q, want sha256, sha384 or sha512: %w", what, d.Digest, err)
	}
	return nil
}

// checkManifestDigest accepts the digests of manifests that containers/image can verify.
func checkManifestDigest(d v1.Descriptor) error {
	if d.Digest.Algorithm != digest.Canonical.String() {
		return fmt.Errorf("the manifest%s has the digest %q, want a sha256 digest: container runtimes verify manifests with no other; push the index again with sha256 digests of its manifests", forPlatform(d), d.Digest)
	}
	return nil
}

// checkConfig rejects artifacts: manifests with the layers of other things than images. Only images have the config of an
// image, as in containers/image.
func checkConfig(t types.MediaType) error {
	if t != "" && !t.IsConfig() {
		return fmt.Errorf("the config has the media type %q: it is not an image", t)
	}
	return nil
}

// Limits bound the cost of one image. A zero field means its default; limits cannot
// be disabled. Sizes are in bytes. The error for an image that exceeds a limit is an
// extractor.ErrInvalid that wraps an *overlay.LimitError.
type Limits struct {
	// Manifest is the maximum size of a manifest or index; default 4 MiB.
	Manifest int64
	// Layers is the maximum number of layers; default 512.
	Layers int
	// Layer is the maximum compressed size of a layer; default 4 GiB.
	Layer int64
	// Image is the maximum compressed size of all layers; default 8 GiB.
	Image int64
	// Contents are the limits of the contents of layers.
	Contents overlay.Limits
}

const (
	mib int64 = 1 << 20
	gib       = mib << 10
)

// withDefaults returns the limits with the defaults filled in.
func (l Limits) withDefaults() Limits {
	return Limits{
		Manifest: cmp.Or(l.Manifest, 4*mib),
		Layers:   cmp.Or(l.Layers, 512),
		Layer:    cmp.Or(l.Layer, 4*gib),
		Image:    cmp.Or(l.Image, 8*gib),
		Contents: l.Contents.WithDefaults(),
	}
}
