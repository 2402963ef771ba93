// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

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

// scratchImage is an OCI image with one layer. It does not use package mutate,
// whose config always has a creation time.
type scratchImage struct {
	layer            v1.Layer
	config, manifest []byte
}

// scratch returns an image for linux/amd64 that contains only layer.
func (p Packer) scratch(layer v1.Layer, texts map[string]string) (v1.Image, error) {
	diffID, err := layer.DiffID()
	if err != nil {
		return nil, fmt.Errorf("reading the layer: %w", err)
	}
	descriptor, err := partial.Descriptor(layer)
	if err != nil {
		return nil, fmt.Errorf("reading the layer: %w", err)
	}
	config, err := json.Marshal(ocispec.Image{
		Created:  p.Created,
		Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.Digest(diffID.String())}},
		History:  []ocispec.History{{Created: p.Created, CreatedBy: createdBy}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the image's config: %w", err)
	}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(config), Size: int64(len(config))},
		Layers: []ocispec.Descriptor{{
			MediaType: string(descriptor.MediaType), Digest: digest.Digest(descriptor.Digest.String()), Size: descriptor.Size,
		}},
		Annotations: texts,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the image's manifest: %w", err)
	}
	return partial.CompressedToImage(scratchImage{layer, config, manifest})
}

func (i scratchImage) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (i scratchImage) RawConfigFile() ([]byte, error)      { return i.config, nil }
func (i scratchImage) RawManifest() ([]byte, error)        { return i.manifest, nil }

// LayerByDigest returns the layer if it has the digest.
func (i scratchImage) LayerByDigest(hash v1.Hash) (partial.CompressedLayer, error) {
	own, err := i.layer.Digest()
	if err != nil {
		return nil, err
	}
	if own != hash {
		return nil, fmt.Errorf("the image has no layer %s", hash)
	}
	return i.layer, nil
}
