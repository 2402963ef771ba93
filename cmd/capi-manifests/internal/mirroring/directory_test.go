// SPDX-License-Identifier: Apache-2.0

package mirroring

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// A copy can be interrupted at any write, and a disk can be full.
func TestDirectory_ContinuesAnInterruptedCopy(t *testing.T) {
	image, err := random.Image(1024, 2)
	if err != nil {
		t.Fatal(err)
	}
	config, manifest := digestOf(t, image.ConfigName), digestOf(t, image.Digest)
	ref, err := name.NewDigest("registry.example.com/core@" + manifest.String())
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	layer := digestOf(t, layers[0].Digest)
	for stage, interrupt := range map[string]func(dir string) error{
		"nothing": func(string) error { return nil },
		"only oci-layout": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "blobs")), os.Remove(filepath.Join(dir, "index.json")))
		},
		"the index without the image":       unlisted,
		"an empty config without the image": func(dir string) error { return errors.Join(unlisted(dir), os.Truncate(blob(dir, config), 0)) },
		"an empty config":                   func(dir string) error { return os.Truncate(blob(dir, config), 0) },
		"a cut manifest":                    func(dir string) error { return os.Truncate(blob(dir, manifest), 20) },
		"a cut layer":                       func(dir string) error { return os.Truncate(blob(dir, layer), 20) },
		"a missing layer": func(dir string) error {
			return errors.Join(os.Remove(blob(dir, layer)), os.WriteFile(blob(dir, layer)+"123", []byte("part"), 0o600))
		},
	} {
		t.Run(stage, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "release")
			for range 2 {
				d, err := OpenDirectory(dir, true)
				if err == nil {
					err = d.Put(t.Context(), ref, image)
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := interrupt(dir); err != nil {
					t.Fatal(err)
				}
				interrupt = func(string) error { return nil }
			}
			checkDirectory(t, dir, ref)
		})
	}
}

// checkDirectory checks that a directory has one image, whole, and no other files.
func checkDirectory(t *testing.T, dir string, ref name.Digest) {
	t.Helper()
	d, err := OpenDirectory(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if images, err := d.Images(); err != nil || len(images) != 1 || images[0].String() != ref.String() {
		t.Errorf("images %v, %v", images, err)
	}
	got, err := d.Get(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(got.(v1.Image)); err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil || len(files) != 4 {
		t.Errorf("blobs %s, %v; want the manifest, the config and two layers", strings.Join(files, ", "), err)
	}
}

func unlisted(dir string) error {
	return os.WriteFile(filepath.Join(dir, "index.json"), []byte(emptyIndex), 0o600)
}

func blob(dir string, digest v1.Hash) string {
	return filepath.Join(dir, "blobs", "sha256", digest.Hex)
}

func digestOf(t *testing.T, of func() (v1.Hash, error)) v1.Hash {
	t.Helper()
	h, err := of()
	if err != nil {
		t.Fatal(err)
	}
	return h
}
