// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/registry"
)

// hinting returns an image whose locator names bundle b in the n-th layer.
func hinting(t testing.TB, image v1.Image, n int, b extractor.Bundle) v1.Image {
	t.Helper()
	files, err := b.Files()
	if err != nil {
		t.Fatal(err)
	}
	return mutate.Annotations(image, LocatorAnnotations(layerOf(t, image, n).Digest, files)).(v1.Image)
}

func layerOf(t testing.TB, image v1.Image, n int) v1.Descriptor {
	t.Helper()
	m, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return m.Layers[n]
}

// Images that are built FROM a packed image, or recompressed, inherit its locator.
func TestLocator_HasNoEffect(t *testing.T) {
	image := registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"}, shipped(t, aws(manifests)))
	annotated := func(values map[string]string) v1.Image { return mutate.Annotations(image, values).(v1.Image) }
	foreign := "sha256:" + strings.Repeat("a", 64)
	above := func(entries ...registry.Entry) v1.Image {
		upper := registry.Layer{Entries: entries}
		return hinting(t, registry.MustImage(t, shipped(t, aws(manifests)), upper), 0, aws(manifests))
	}
	newer := aws("kind: Newer\n")
	for name, test := range map[string]struct {
		image v1.Image
		want  []extractor.Bundle
	}{
		"layer not in the image":        {annotated(map[string]string{AnnotationLayer: foreign, AnnotationListing: foreign}), from(aws(manifests), "")},
		"layer without a bundle":        {hinting(t, registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"}), 0, aws(manifests)), nil},
		"other bundle":                  {hinting(t, image, 1, aws("kind: Other\n")), from(aws(manifests), "")},
		"derived image, new bundle":     {above(filesIn(t, root, newer)...), from(newer, "")},
		"derived image, bundle deleted": {above(registry.Whiteout(root)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			reads(t, test.image, test.want)
		})
	}
}
