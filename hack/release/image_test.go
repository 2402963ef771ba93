// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testBuild describes a release of this checkout.
func testBuild(t *testing.T) build {
	t.Helper()
	b := build{root: "../..", output: t.TempDir(), version: "v0.1.0", repository: "quay.io/example/capi-installer", bin: t.TempDir(), platforms: []platform{own()}}
	must(t, b.prepare(t.Context()))
	return b
}

func TestImage_RunsAsNonRoot(t *testing.T) {
	b := testBuild(t)
	image, err := b.image(installer, os.Args[0], "arm64")
	must(t, err)
	config, err := image.ConfigFile()
	must(t, err)
	if config.Config.User != "65532:65532" || config.OS != "linux" || config.Architecture != "arm64" || !config.Created.Equal(b.created) {
		t.Errorf("user %q on %q/%q of %s", config.Config.User, config.OS, config.Architecture, config.Created)
	}
	if diff := cmp.Diff([]string{"/usr/bin/capi-installer"}, config.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
	for _, label := range []string{"source", "revision", "licenses", "created", "version"} {
		if config.Config.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("no label %s", label)
		}
	}
}

// TestImage_LayerEndsWithTheEndOfAnArchive reads the layer as GNU tar and Python do: they reject an archive without two
// empty blocks at its end. Go's own reader does not need them.
func TestImage_LayerEndsWithTheEndOfAnArchive(t *testing.T) {
	image, err := testBuild(t).image(installer, os.Args[0], "amd64")
	must(t, err)
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	reader, err := layers[0].Uncompressed()
	must(t, err)
	defer reader.Close()
	files := map[string]fs.FileMode{}
	archive := tar.NewReader(reader)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		files[header.Name] = header.FileInfo().Mode().Perm()
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.ModTime.Unix() != 0 {
			t.Errorf("%s has owner %d:%d (%s) and time %s", header.Name, header.Uid, header.Gid, header.Uname, header.ModTime)
		}
	}
	if files["usr/bin/capi-installer"] != 0o755 || files["manifests/image-references"] != 0o644 {
		t.Errorf("modes %v", files)
	}
	content, err := layers[0].Uncompressed()
	must(t, err)
	defer content.Close()
	all, err := io.ReadAll(content)
	if end := make([]byte, 1024); err != nil || len(all)%512 != 0 || !bytes.HasSuffix(all, end) {
		t.Errorf("the archive of %d bytes does not end with two empty blocks (error %v)", len(all), err)
	}
}

func TestOfRelease_ExcludesKustomization(t *testing.T) {
	for name, want := range map[string]bool{
		"0000_30_cluster-api_00_namespaces.yaml": true, "image-references": true,
		"kustomization.yaml": false, "manifests.go": false, "overlays": false,
	} {
		if got := ofRelease(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}
