// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/internal/ocilayout"
)

// installer is the program whose image is part of an OpenShift release.
const installer = "capi-installer"

// imagePlatforms are the architectures of images.
var imagePlatforms = []string{"amd64", "arm64"}

// writeImage builds a program for each architecture and writes the index of the images into an OCI layout, or an archive of
// one if the name ends in .tar. It returns the digest of the index.
func (b build) writeImage(ctx context.Context, name, path string) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range imagePlatforms {
		program, err := b.program(ctx, name, platform{"linux", arch})
		if err != nil {
			return v1.Hash{}, err
		}
		image, err := b.image(name, program, arch)
		if err != nil {
			return v1.Hash{}, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	write := ocilayout.Write
	if filepath.Ext(path) == ".tar" {
		write = ocilayout.WriteArchive
	}
	if err := write(ctx, path, index, name+":"+b.version); err != nil {
		return v1.Hash{}, fmt.Errorf("writing %s: %w", path, err)
	}
	return index.Digest()
}

// image returns the image with a program, with the content that Containerfile describes.
func (b build) image(name, program, arch string) (v1.Image, error) {
	files, err := b.contents(name, program)
	if err != nil {
		return nil, err
	}
	content, err := archive(files)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "make image", Created: v1.Time{Time: b.created}}})
	if err != nil {
		return nil, err
	}
	return b.configured(image, name, arch)
}

func (b build) configured(image v1.Image, name, arch string) (v1.Image, error) {
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", arch, v1.Time{Time: b.created}
	file.Config = v1.Config{
		User:       "65532:65532",
		Entrypoint: []string{"/usr/bin/" + name},
		Labels: map[string]string{
			"org.opencontainers.image.version":  b.version,
			"org.opencontainers.image.revision": b.revision,
			"org.opencontainers.image.created":  b.created.Format(timeFormat),
			"org.opencontainers.image.source":   source,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.title":    name,
		},
	}
	if name == installer {
		file.Config.Labels["io.openshift.release.operator"] = "true"
	}
	return mutate.ConfigFile(image, file)
}

// contents returns the files of an image; the manifests belong to the installer. They have no times and no owners, so that the layer is reproducible.
func (b build) contents(name, binary string) (fs.FS, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	files := fstest.MapFS{"usr/bin/" + name: {Data: program, Mode: 0o755}}
	if name != installer {
		return files, nil
	}
	manifests := filepath.Join(b.root, "manifests")
	entries, err := os.ReadDir(manifests)
	if err != nil {
		return nil, fmt.Errorf("reading the manifests: %w", err)
	}
	for _, entry := range entries {
		if !ofRelease(entry.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(manifests, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the manifests: %w", err)
		}
		files["manifests/"+entry.Name()] = &fstest.MapFile{Data: content, Mode: 0o644}
	}
	return files, nil
}

// ofRelease reports whether a file belongs in the release payload. kustomization.yaml does not: the cluster version
// operator would apply it.
func ofRelease(name string) bool {
	return name == "image-references" || strings.HasPrefix(name, "0000_") && filepath.Ext(name) == ".yaml"
}

// archive returns the files as a tar archive.
func archive(files fs.FS) ([]byte, error) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	if err := writer.AddFS(files); err != nil {
		return nil, fmt.Errorf("writing the layer: %w", err)
	}
	if err := writer.Close(); err != nil { // writes the end of the archive
		return nil, fmt.Errorf("writing the layer: %w", err)
	}
	return out.Bytes(), nil
}
