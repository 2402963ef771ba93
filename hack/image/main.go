// SPDX-License-Identifier: Apache-2.0

// Command image builds the installer's image as an OCI layout, with the content that
// Containerfile describes, without a container engine. The build is reproducible: the
// same source gives the same digest on every machine.
//
//	go run ./hack/image -binary bin/capi-installer -version v1.0.0 -output _output/image
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing/fstest"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/internal/ocilayout"
)

func main() {
	binary := flag.String("binary", "bin/capi-installer", "the program, built for Linux")
	manifests := flag.String("manifests", "manifests", "folder with the manifests of the release")
	version := flag.String("version", "unknown", "version that the image is labelled with")
	output := flag.String("output", "_output/image", "OCI layout to write")
	flag.Parse()
	digest, err := run(*binary, *manifests, *version, *output)
	if err != nil {
		fmt.Fprintln(os.Stderr, "making the image:", err)
		os.Exit(1)
	}
	fmt.Printf("%s@%s\n", *output, digest)
}

// run writes the layout and returns the digest of the image.
func run(binary, manifests, version, output string) (v1.Hash, error) {
	image, err := image(binary, manifests, version)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := ocilayout.Write(context.Background(), output, image, "capi-installer:"+version); err != nil {
		return v1.Hash{}, fmt.Errorf("writing %s: %w", output, err)
	}
	return image.Digest()
}

func image(binary, manifests, version string) (v1.Image, error) {
	files, err := contents(binary, manifests)
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
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "make image"}})
	if err != nil {
		return nil, err
	}
	return configured(image, version)
}

func configured(image v1.Image, version string) (v1.Image, error) {
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{
		User:       "65532:65532",
		Entrypoint: []string{"/usr/bin/capi-installer"},
		Labels:     map[string]string{"io.openshift.release.operator": "true", "org.opencontainers.image.version": version},
	}
	return mutate.ConfigFile(image, file)
}

// contents returns the files of the image. They have no times and no owners, so that the layer is reproducible.
func contents(binary, manifests string) (fs.FS, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	files := fstest.MapFS{"usr/bin/capi-installer": {Data: program, Mode: 0o755}}
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
