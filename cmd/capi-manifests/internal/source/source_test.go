// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capi-installer/capi-installer/internal/lazyimage"
	"github.com/capi-installer/capi-installer/internal/ocilayout"
	"github.com/capi-installer/capi-installer/test/registry"
)

const metadataYAML = "name: core\nattributes:\n  type: core\n  version: v1.13.0\n"

const manifestsYAML = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: capi-system\n"

// archive is a txtar archive with one bundle.
const archive = "-- capi-operator-manifests/default/metadata.yaml --\n" + metadataYAML +
	"-- capi-operator-manifests/default/manifests.yaml --\n" + manifestsYAML

// sources writes the same bundle as a directory, an OCI layout, an OCI archive and
// an archive of "podman save", and returns their paths by kind.
func sources(t *testing.T) map[string]string {
	t.Helper()
	dir, image := t.TempDir(), registry.MustImage(t, registry.Layer{Txtar: archive})
	paths := map[string]string{
		"a directory": directory(t, archive), "an OCI layout": filepath.Join(dir, "layout"),
		"an OCI archive": filepath.Join(dir, "oci.tar"), "an archive of podman save": filepath.Join(dir, "saved.tar"),
	}
	tag, err := name.NewTag("quay.io/example/core:v1")
	saved, imageErr := registry.Format{Docker: true}.Image(registry.Layer{Txtar: archive})
	if err := errors.Join(
		err, imageErr, ocilayout.Write(t.Context(), paths["an OCI layout"], image, ""), ocilayout.WriteArchive(t.Context(), paths["an OCI archive"], image, ""),
		tarball.WriteToFile(paths["an archive of podman save"], tag, saved),
	); err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestBundles_AreTheSameInEveryKindOfSource(t *testing.T) {
	for kind, path := range sources(t) {
		t.Run(kind, func(t *testing.T) {
			bundles, at, err := Bundles(t.Context(), io.Discard, path)
			if err != nil || at != path || len(bundles) != 1 {
				t.Fatalf("%d bundles at %s, error %v", len(bundles), at, err)
			}
			if got := bundles[0]; got.Metadata.ProviderName != "core" || string(got.Manifests) != manifestsYAML {
				t.Errorf("bundle of %s with the manifests %q", got.Metadata.ProviderName, got.Manifests)
			}
		})
	}
}

func TestBundles_ErrorsNameTheSource(t *testing.T) {
	archive := sources(t)["an OCI archive"]
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	for problem, test := range map[string]struct {
		content, want string
		invalid       bool
	}{
		"a damaged archive":    {string(content[:len(content)-1500]), "reading the OCI layout", true},
		"a release":            {`{"aws": "quay.io/a/b@sha256:0"}`, "--images-json names a release", true},
		"another kind of file": {"hello", "or an archive without compression", true},
	} {
		t.Run(problem, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "input")
			if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := Bundles(t.Context(), io.Discard, file)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), file) {
				t.Fatalf("error %v, want %q with the file", err, test.want)
			}
			if _, invalid := errors.AsType[*InvalidError](err); invalid == test.invalid {
				return
			}
			if _, invalid := errors.AsType[*lazyimage.InvalidError](err); invalid != test.invalid {
				t.Errorf("%v: error about content: %t, want %t", err, invalid, test.invalid)
			}
		})
	}
}

func TestKindOf(t *testing.T) {
	paths := sources(t)
	for source, want := range map[string]Kind{
		paths["a directory"]: Directory, paths["an OCI layout"]: Layout, paths["an OCI archive"]: Archive,
		"quay.io/me/capa:v1": Image, "quay.io/me/capa": Image, "localhost/capa": Image, "registry:5000/capa": Image,
	} {
		if got, err := KindOf(source); got != want || err != nil {
			t.Errorf("KindOf(%q) = %v, %v; want %v", source, got, err, want)
		}
	}
	for _, source := range []string{"v2.10.0/components.yaml", "out/capa.tar", "", "missing", "./missing", "/missing/too", "out/x", "out/x:v1", "out/x@sha256:" + strings.Repeat("0", 64)} {
		if got, err := KindOf(source); err == nil {
			t.Errorf("KindOf(%q) = %v, want an error", source, got)
		}
	}
}
