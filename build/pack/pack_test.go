// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/test/registry"
)

func bundleOf(manifests string) extractor.Bundle {
	return extractor.Bundle{
		Metadata: extractor.Metadata{
			ProviderName: "cluster-api-provider-demo", ProviderType: extractor.Infrastructure, ProviderVersion: "v1.2.3",
			OCPPlatform: "AWS", ContentID: digest.FromString(manifests),
		},
		Manifests: []byte(manifests),
	}
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: demo\n"

func packed(t *testing.T, base v1.Image, bundle extractor.Bundle) v1.Image {
	t.Helper()
	image, err := pack.Pack(base, bundle)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "layout")
	if err := pack.WriteLayout(t.Context(), dir, image, ""); err != nil {
		t.Fatal(err)
	}
	validateLayout(t, dir)
	return image
}

// validateLayout checks every digest, size and media type of a layout, and returns its index.
func validateLayout(t *testing.T, dir string) *v1.IndexManifest {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatalf("the layout is not valid: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

func digestOf(t *testing.T, of mutate.Appendable) v1.Hash {
	t.Helper()
	hash, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// entry is one entry of a layer; a directory's name ends with a slash.
type entry struct {
	Name, Content string
	Mode          int64
	NoTime        bool
}

func entriesOfTopLayer(t *testing.T, image v1.Image) []entry {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[len(layers)-1].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var entries []entry
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if err == io.EOF {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry{header.Name, string(data), header.Mode, header.ModTime.Unix() == 0})
	}
}

func TestPack_SameDigestForSameBundle(t *testing.T) {
	first, second := packed(t, nil, bundleOf(configMap)), packed(t, nil, bundleOf(configMap))
	if digestOf(t, first) != digestOf(t, second) {
		t.Errorf("got %s, then %s", digestOf(t, first), digestOf(t, second))
	}
	// The digest is from a first run. If it changes, every image changes with the
	// next release.
	const known = "sha256:a56d52cd9dc43f4eda65258f0e14b9c6c290e75aff536286b19c1bf0f849d178"
	if got := digestOf(t, first).String(); got != known {
		t.Errorf("got %s, want %s", got, known)
	}
	if other := packed(t, nil, bundleOf(configMap+"data: {}\n")); digestOf(t, other) == digestOf(t, first) {
		t.Error("another bundle has the same digest")
	}
}

func TestPack_ScratchImageHasOneLayer(t *testing.T) {
	bundle := bundleOf(configMap)
	image := packed(t, nil, bundle)
	files, err := bundle.Files()
	if err != nil {
		t.Fatal(err)
	}
	want := []entry{
		{"capi-manifests/", "", 0o755, true},
		{"capi-manifests/manifests.yaml", configMap, 0o644, true},
		{"capi-manifests/metadata.json", string(files["capi-manifests/metadata.json"]), 0o644, true},
	}
	if diff := cmp.Diff(want, entriesOfTopLayer(t, image)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.MediaType != types.OCIManifestSchema1 || manifest.Config.MediaType != types.OCIConfigJSON || manifest.Layers[0].MediaType != types.OCILayer {
		t.Errorf("media types %s, %s, %s are not OCI's", manifest.MediaType, manifest.Config.MediaType, manifest.Layers[0].MediaType)
	}
	wantTexts := map[string]string{
		"org.opencontainers.image.title":       "cluster-api-provider-demo",
		"org.opencontainers.image.version":     "v1.2.3",
		"org.opencontainers.image.description": "Cluster API manifests of cluster-api-provider-demo, type infrastructure, for AWS",
	}
	if diff := cmp.Diff(wantTexts, manifest.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(config, []byte(`"created"`)) || !bytes.Contains(config, []byte(`"architecture":"amd64","os":"linux"`)) {
		t.Errorf("config: %s", config)
	}
}

func TestPack_AppendsLayerAndHidesOlderBundles(t *testing.T) {
	base := mutate.MediaType(mutate.ConfigMediaType(packed(t, nil, bundleOf("kind: Old\n")), types.OCIConfigJSON), types.OCIManifestSchema1)
	image := packed(t, base, bundleOf(configMap))
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Layers) != 2 || manifest.Layers[1].MediaType != types.OCILayer {
		t.Errorf("layers: %v", manifest.Layers)
	}
	if got, want := manifest.Annotations["org.opencontainers.image.base.digest"], digestOf(t, base).String(); got != want {
		t.Errorf("annotated digest of the base is %s, want %s", got, want)
	}
	if entries := entriesOfTopLayer(t, image); entries[1].Name != "capi-manifests/.wh..wh..opq" {
		t.Errorf("the layer has no opaque whiteout: %v", entries)
	}
	if digestOf(t, image) != digestOf(t, packed(t, base, bundleOf(configMap))) {
		t.Error("packing again gives another image")
	}
}

// wantReadBack fails the test unless the image has only the bundle.
func wantReadBack(t *testing.T, ctx context.Context, image v1.Image, bundle extractor.Bundle, origin extractor.Origin) {
	t.Helper()
	got, err := remote.FromImage(ctx, image, origin)
	if err != nil {
		t.Fatal(err)
	}
	bundle.Origin = origin
	if diff := cmp.Diff([]extractor.Bundle{bundle}, got); diff != "" {
		t.Errorf("bundles (-want +got):\n%s", diff)
	}
}

func TestPack_ReadBackByExtractor(t *testing.T) {
	bundle := bundleOf(configMap)
	origin := extractor.Origin{Name: "demo", Image: "registry.example.com/demo@sha256:" + strings.Repeat("ab", 32)}
	bases := map[string]v1.Image{
		"no base":             nil,
		"a base":              registry.MustImage(t, registry.Layer{Txtar: "-- usr/bin/manager --\n"}),
		"an older bundle":     packed(t, nil, bundleOf("kind: Old\n")),
		"the other file name": registry.MustImage(t, registry.Layer{Txtar: "-- capi-manifests/manifests --\nkind: Old\n"}),
	}
	for name, base := range bases {
		for _, profile := range []string{"", "default"} {
			t.Run(name+" "+profile, func(t *testing.T) {
				bundle := bundle
				bundle.Profile = profile
				wantReadBack(t, t.Context(), packed(t, base, bundle), bundle, origin)
			})
		}
	}
}

func TestPack_KeepsDockerMediaTypes(t *testing.T) {
	image := packed(t, empty.Image, bundleOf(configMap)) // empty.Image is Docker's
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.MediaType != types.DockerManifestSchema2 || manifest.Layers[0].MediaType != types.DockerLayer || manifest.Annotations != nil {
		t.Errorf("manifest: %+v", manifest)
	}
}

func TestPack_RejectsUnreadableBundle(t *testing.T) {
	bundle := bundleOf(configMap)
	bundle.Manifests = []byte("kind: Changed\n")
	_, err := pack.Pack(nil, bundle)
	if !errors.Is(err, extractor.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestWriteLayout_ReplacesLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "layout")
	for _, manifests := range []string{configMap, configMap + "data: {}\n"} {
		image := packed(t, nil, bundleOf(manifests))
		if err := pack.WriteLayout(t.Context(), dir, image, "example.com/demo:v1"); err != nil {
			t.Fatal(err)
		}
		manifest := validateLayout(t, dir)
		if len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest != digestOf(t, image) {
			t.Errorf("index: %+v", manifest)
		}
		if got := manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; got != "example.com/demo:v1" {
			t.Errorf("the image's name is %q", got)
		}
	}
	if beside, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(beside) != 1 {
		t.Errorf("temporary files remain beside the layout: %v, %v", beside, err)
	}
}

func TestWriteLayout_WritesNothingAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	image := packed(t, nil, bundleOf(configMap))
	for _, err := range []error{
		bundle.WriteDirs(ctx, map[string]map[string][]byte{filepath.Join(dir, "files"): {"a": nil}}),
		pack.WriteLayout(ctx, filepath.Join(dir, "layout"), image, ""),
		pack.WriteArchive(ctx, filepath.Join(dir, "archive.tar"), image, ""),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("unexpected entries %v (%v)", entries, err)
	}
}
