// SPDX-License-Identifier: Apache-2.0

package build

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
)

// createdBy is what the history of a packed image says about the layer.
const createdBy = "capi-manifests pack"

// PackError says that a bundle cannot be put into an image.
type PackError struct{ Err error }

func (e *PackError) Error() string { return "packing: " + e.Err.Error() }
func (e *PackError) Unwrap() error { return e.Err }

// Packer puts bundles into images. The zero value makes images that say nothing of a time.
type Packer struct {
	// Created is when the images say that they were created, in seconds since 1970;
	// nil leaves what the base says, and says nothing without one. The layer is the same whatever it is.
	Created *time.Time
}

// Pack packs with the zero Packer.
func Pack(base v1.Image, bundle extractor.Bundle) (v1.Image, error) {
	return Packer{}.Image(base, bundle)
}

// Image returns base with one more layer that holds the bundle, or, if base is nil,
// an image for linux/amd64 with nothing but that layer. The image is a function of
// the Packer and the arguments: the same bundle on the same base gives the same digest. Errors are
// of type *PackError.
//
// The layer hides what base has in the bundle's directory, so that packing again
// replaces what was packed before. The image says which layer that is and what
// its bundle's digest is (remote.HintLayer, remote.HintListing), as annotations
// or, for Docker's images, as labels: a reader needs no other layer.
func (p Packer) Image(base v1.Image, bundle extractor.Bundle) (v1.Image, error) {
	image, err := p.pack(base, bundle)
	if err != nil {
		return nil, &PackError{err}
	}
	return image, nil
}

func (p Packer) pack(base v1.Image, bundle extractor.Bundle) (v1.Image, error) {
	files, err := bundle.Files()
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
	hints, texts := remote.Hints(digest, files), p.annotations(bundle.Metadata)
	switch {
	case base == nil:
		maps.Copy(texts, hints)
		return p.scratch(layer, texts)
	case mediaType == types.DockerLayer:
		return p.appendLabelled(base, layer, hints)
	}
	maps.Copy(texts, hints)
	return p.appendAnnotated(base, layer, texts)
}

// layerType is OCI's media type of a layer, or Docker's if base is Docker's: some
// runtimes refuse a mixture.
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
// without a time. If opaque, it hides what lower layers have in the same top
// directories. The compressor is not the standard library's, so that another
// version of Go does not make another digest.
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
	entries := map[string][]byte{} // a directory ends with a slash
	for file, content := range files {
		entries[file] = content
		for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
			entries[dir+"/"] = nil
		}
		if top, _, nested := strings.Cut(file, "/"); nested && opaque {
			entries[top+"/.wh..wh..opq"] = nil
		}
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, entry := range sortedKeys(entries) {
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

// annotations are what registries and their users show of an image
// (https://github.com/opencontainers/image-spec/blob/main/annotations.md).
func (p Packer) annotations(m extractor.Metadata) map[string]string {
	texts := map[string]string{
		ocispec.AnnotationTitle:       m.ProviderName,
		ocispec.AnnotationVersion:     m.ProviderVersion,
		ocispec.AnnotationDescription: fmt.Sprintf("Cluster API manifests of %s, type %s, for %s", m.ProviderName, m.ProviderType, cmp.Or(m.OCPPlatform, "every platform")),
	}
	if p.Created != nil {
		texts[ocispec.AnnotationCreated] = p.Created.UTC().Format(time.RFC3339)
	}
	return texts
}

// appendAnnotated puts layer on base and annotations on the manifest.
func (p Packer) appendAnnotated(base v1.Image, layer v1.Layer, texts map[string]string) (v1.Image, error) {
	digest, err := base.Digest()
	if err != nil {
		return nil, fmt.Errorf("reading the base image's manifest: %w", err)
	}
	image, err := p.appendLayer(base, layer)
	if err != nil {
		return nil, err
	}
	texts[ocispec.AnnotationBaseImageDigest] = digest.String()
	return mutate.Annotations(image, texts).(v1.Image), nil
}

// appendLabelled puts layer on base and labels in the config: Docker's manifests have no annotations.
func (p Packer) appendLabelled(base v1.Image, layer v1.Layer, labels map[string]string) (v1.Image, error) {
	image, err := p.appendLayer(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the image's config: %w", err)
	}
	config = config.DeepCopy()
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	maps.Copy(config.Config.Labels, labels)
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, fmt.Errorf("writing the image's labels: %w", err)
	}
	return image, nil
}

// appendLayer puts layer on base.
func (p Packer) appendLayer(base v1.Image, layer v1.Layer) (v1.Image, error) {
	config, err := base.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the base image's config: %w", err)
	}
	mediaType, err := layer.MediaType()
	if err != nil {
		return nil, err
	}
	created := config.Created
	if p.Created != nil {
		created = v1.Time{Time: p.Created.UTC()}
	}
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, MediaType: mediaType, History: v1.History{Created: created, CreatedBy: createdBy},
	})
	if err == nil && p.Created != nil {
		image, err = mutate.CreatedAt(image, created)
	}
	if err != nil {
		return nil, fmt.Errorf("appending the layer: %w", err)
	}
	return image, nil
}
