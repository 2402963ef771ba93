// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
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
// annotations or, for Docker images, as labels. With the locator a reader needs no
// other layer.
func (p Packer) Image(base v1.Image, bundle extractor.Bundle) (v1.Image, error) {
	image, err := p.pack(base, bundle)
	if err != nil {
		return nil, &Error{err}
	}
	return image, nil
}

// filesOf returns the files of a bundle in the layout from which it was read.
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

// layerType returns the OCI media type of a layer, or Docker's if base is a Docker
// image: some runtimes reject a mixture.
func layerType(base v1.Image) (types.MediaType, error) {
	if base == nil {
		return types.OCILayer, nil
	}
	mediaType, err := base.MediaType()
	if err != nil {
		return "", fmt.Errorf("reading the base image's manifest: %w", err)
	}
	if mediaType == types.DockerManifestSchema2 {
		return types.DockerLayer, nil
	}
	return types.OCILayer, nil
}

// newLayer returns a gzip layer of files: sorted, owned by root, readable by all,
// without times. If opaque, it hides the same top-level directories and bundles
// in the other layout of lower layers. It does not use the compressor of the standard library, so that the
// digest does not depend on the version of Go.
func newLayer(files extractor.Files, mediaType types.MediaType, opaque bool) (v1.Layer, error) {
	archive, err := tarOf(files, opaque)
	if err != nil {
		return nil, fmt.Errorf("writing the layer: %w", err)
	}
	compressed, err := compress(archive)
	if err != nil {
		return nil, fmt.Errorf("compressing the layer: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(compressed)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(mediaType))
	if err != nil {
		return nil, fmt.Errorf("reading the layer: %w", err)
	}
	return layer, nil
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

func tarOf(files extractor.Files, opaque bool) ([]byte, error) {
	entries := map[string][]byte{} // names of directories end with a slash
	for file, content := range files {
		entries[file] = content
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			entries[dir+"/"] = nil
		}
		if top, _, nested := strings.Cut(file, "/"); nested && opaque {
			entries[top+"/.wh..wh..opq"] = nil
		}
	}
	for _, root := range extractor.Roots() {
		if _, own := entries[root+"/"]; own || !opaque {
			break
		}
		entries[".wh."+root] = nil // readers would prefer a bundle there
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, entry := range slices.Sorted(maps.Keys(entries)) {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: entry, Mode: 0o644, Size: int64(len(entries[entry])), Format: tar.FormatUSTAR}
		if strings.HasSuffix(entry, "/") {
			header.Typeflag, header.Mode = tar.TypeDir, 0o755
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(entries[entry]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return archive.Bytes(), err
}
