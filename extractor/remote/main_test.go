// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	"go.uber.org/goleak"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/test/registry"
)

func TestMain(m *testing.M) {
	if references := os.Getenv(inOwnProcess); references != "" {
		os.Exit(peakOf(strings.Fields(references)))
	}
	goleak.VerifyTestMain(m)
}

// aws returns a bundle for tests.
func aws(manifests string) extractor.Bundle {
	return extractor.Bundle{
		Metadata: extractor.Metadata{
			ProviderName:    "cluster-api-provider-aws",
			ProviderType:    extractor.Infrastructure,
			ProviderVersion: "v2.10.0",
			OCPPlatform:     "AWS",
			ContentID:       digest.FromString(manifests),
			ImageName:       "registry.ci.openshift.org/openshift:aws-cluster-api-controllers",
		},
		Manifests: []byte(manifests),
	}
}

const manifests = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: capa-system\n"

// from returns b as it is read from an image.
func from(b extractor.Bundle, reference string) []extractor.Bundle {
	b.Origin.Image = reference
	return []extractor.Bundle{b}
}

// filesIn returns the files of a bundle as archive entries in dir.
func filesIn(t testing.TB, dir string, b extractor.Bundle) []registry.Entry {
	files, err := b.Files()
	if err != nil {
		t.Fatal(err)
	}
	return []registry.Entry{
		registry.File(dir+"/metadata.json", string(files["capi-manifests/metadata.json"])),
		registry.File(dir+"/manifests.yaml", string(files["capi-manifests/manifests.yaml"])),
	}
}

// shipped returns a layer with a bundle in the usual directory.
func shipped(t testing.TB, b extractor.Bundle) registry.Layer {
	return registry.Layer{Entries: filesIn(t, "capi-manifests", b)}
}

// client returns a Registry for tests, with short retries.
func client(testing.TB) *Registry {
	return &Registry{Client: &fetch.Client{Retry: fetch.Retry{Backoff: time.Millisecond}}}
}

// filesOf returns the files of an image's bundles, unpacked from its layers.
func filesOf(ctx context.Context, image v1.Image, limits Limits) (extractor.Files, error) {
	raw, err := image.RawManifest()
	if err != nil {
		return nil, err
	}
	u := imageReader{limits: limits.withDefaults(), readBlob: localBlobs(image), cache: &layerCache{}}
	manifest, err := parseManifest(raw)
	if err != nil {
		return nil, err
	}
	return u.readFiles(ctx, manifest)
}

// forget empties the layer cache of a Registry.
func forget(c *Registry) {
	c.layers = layerCache{}
}

// layerOf returns the n-th layer of an image.
func layerOf(t testing.TB, image v1.Image, n int) v1.Descriptor {
	t.Helper()
	m, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return m.Layers[n]
}
