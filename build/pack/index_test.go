// SPDX-License-Identifier: Apache-2.0

package pack_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/test/registry"
)

var twoPlatforms = []string{"linux/amd64", "linux/arm64/v8"}

func indexOf(t *testing.T, format registry.Format) v1.ImageIndex {
	t.Helper()
	var children []registry.Child
	for _, platform := range twoPlatforms {
		format.Platform = platform
		image, err := format.Image(registry.Layer{Txtar: "-- usr/bin/manager --\n" + platform + "\n"})
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, registry.Child{Platform: platform, Image: image})
	}
	index, err := format.Index(children...)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func packedIndex(t *testing.T, packer pack.Packer, base v1.ImageIndex) (*v1.IndexManifest, v1.ImageIndex, []pack.OmittedEntry) {
	t.Helper()
	index, left, err := packer.Index(base, bundleOf(configMap))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "layout")
	if err := pack.WriteLayout(t.Context(), dir, index, ""); err != nil {
		t.Fatal(err)
	}
	validateLayout(t, dir)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return manifest, index, left
}

func TestIndex_PacksEveryImage(t *testing.T) {
	for name, format := range map[string]registry.Format{"OCI": {}, "Docker": {Docker: true}} {
		t.Run(name, func(t *testing.T) {
			base := indexOf(t, format)
			manifest, index, left := packedIndex(t, pack.Packer{}, base)
			var platforms []string
			for _, entry := range manifest.Manifests {
				platforms = append(platforms, entry.Platform.String())
				image, err := index.Image(entry.Digest)
				if err != nil {
					t.Fatal(err)
				}
				bundles, err := remote.FromImage(t.Context(), image, extractor.Origin{})
				if err != nil || len(bundles) != 1 {
					t.Errorf("image for %s has %d bundles: %v", entry.Platform, len(bundles), err)
				}
				config, err := image.ConfigFile()
				if err != nil || config.Architecture != entry.Platform.Architecture || len(config.RootFS.DiffIDs) != 2 {
					t.Errorf("the image for %s is for %s with %d layers: %v", entry.Platform, config.Architecture, len(config.RootFS.DiffIDs), err)
				}
			}
			if diff := cmp.Diff(twoPlatforms, platforms); diff != "" || len(left) != 0 {
				t.Errorf("left out: %v, platforms (-want +got):\n%s", left, diff)
			}
			wantType, _ := base.MediaType()
			if manifest.MediaType != wantType || (manifest.Annotations == nil) != format.Docker {
				t.Errorf("got media type %s and annotations %v", manifest.MediaType, manifest.Annotations)
			}
			if _, again, _ := packedIndex(t, pack.Packer{}, base); digestOf(t, again) != digestOf(t, index) {
				t.Error("packing again gives another index")
			}
		})
	}
}

func TestIndex_OmitsEntriesWithReasons(t *testing.T) {
	base := indexOf(t, registry.Format{})
	other := registry.MustImage(t, registry.Layer{Txtar: "-- sbom.json --\n{}\n"})
	subject := "sha256:" + strings.Repeat("ab", 32)
	base = mutate.AppendManifests(base,
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{
			Platform:    &v1.Platform{OS: "unknown", Architecture: "unknown"},
			Annotations: map[string]string{"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": subject},
		}},
		mutate.IndexAddendum{Add: mutate.Subject(other, v1.Descriptor{MediaType: types.OCIManifestSchema1}).(v1.Image), Descriptor: v1.Descriptor{ArtifactType: "application/spdx+json"}},
		mutate.IndexAddendum{Add: empty.Index},
	)
	manifest, _, left := packedIndex(t, pack.Packer{}, base)
	var reasons []string
	for _, l := range left {
		reasons = append(reasons, l.Reason)
	}
	want := []string{
		"attestation-manifest of " + subject + ", which is not in the packed index",
		"an artifact of type application/spdx+json, not an image",
		"of media type application/vnd.oci.image.index.v1+json, not an image",
	}
	if diff := cmp.Diff(want, reasons); diff != "" || len(manifest.Manifests) != len(twoPlatforms) {
		t.Errorf("%d images are left; reasons (-want +got):\n%s", len(manifest.Manifests), diff)
	}
}

func TestIndex_RejectsBaseWithoutImages(t *testing.T) {
	_, _, err := pack.Packer{}.Index(empty.Index, bundleOf(configMap))
	if !errors.Is(err, extractor.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestImage_CreatedIsNotInLayer(t *testing.T) {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	dated := pack.Packer{Created: &created}
	for name, base := range map[string]v1.Image{"no base": nil, "an OCI base": registry.MustImage(t), "a Docker base": empty.Image} {
		t.Run(name, func(t *testing.T) {
			image, err := dated.Image(base, bundleOf(configMap))
			if err != nil {
				t.Fatal(err)
			}
			var config struct {
				Created string
				History []struct{ Created string }
			}
			raw, err := image.RawConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(raw, &config); err != nil {
				t.Fatal(err)
			}
			const want = "2026-03-01T12:00:00Z"
			if last := config.History[len(config.History)-1].Created; config.Created != want || last != want {
				t.Errorf("created at %s, the layer at %s", config.Created, last)
			}
			undated := packed(t, base, bundleOf(configMap))
			if digestOf(t, image) == digestOf(t, undated) || topLayer(t, image) != topLayer(t, undated) {
				t.Error("the time has no effect, or changes the layer")
			}
		})
	}
}

func topLayer(t *testing.T, image v1.Image) v1.Hash {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	return digestOf(t, layers[len(layers)-1])
}
