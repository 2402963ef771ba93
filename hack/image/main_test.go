// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

func TestImage_IsReproducible(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(binary, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := run(binary, "../../manifests", "v1", filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(binary, later, later); err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "image")
	second, err := run(binary, "../../manifests", "v1", again)
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Errorf("first %s, then %s", first, second)
	}
	if err := os.WriteFile(binary, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := run(binary, "../../manifests", "v1", again)
	if err != nil {
		t.Fatal(err)
	}
	if other == first {
		t.Error("another program makes the same image")
	}
}

func TestImage_RunsAsNonRoot(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(binary, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "image")
	digest, err := run(binary, "../../manifests", "v1", out)
	if err != nil {
		t.Fatal(err)
	}
	path, err := layout.FromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	image, err := path.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || config.OS != "linux" {
		t.Errorf("user %q on %q", config.Config.User, config.OS)
	}
	if diff := cmp.Diff([]string{"/usr/bin/capi-installer"}, config.Config.Entrypoint); diff != "" {
		t.Error(diff)
	}
}

// TestImage_LayerEndsWithTheEndOfAnArchive reads the layer as GNU tar and Python do: they reject an archive without two
// empty blocks at its end. Go's own reader does not need them.
func TestImage_LayerEndsWithTheEndOfAnArchive(t *testing.T) {
	image, err := image(os.Args[0], "../../manifests", "v1")
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	reader, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	files := map[string]fs.FileMode{}
	archive := tar.NewReader(reader)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = header.FileInfo().Mode().Perm()
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.ModTime.Unix() != 0 {
			t.Errorf("%s has owner %d:%d (%s) and time %s", header.Name, header.Uid, header.Gid, header.Uname, header.ModTime)
		}
	}
	if files["usr/bin/capi-installer"] != 0o755 || files["manifests/image-references"] != 0o644 {
		t.Errorf("modes %v", files)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
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
