// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
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

// squashed returns a layer with a bundle, followed by an incompressible program of size bytes.
func squashed(t testing.TB, size int) registry.Layer {
	entries := append([]registry.Entry{registry.File("etc/os-release", "")}, filesIn(t, root, aws(manifests))...)
	return registry.Layer{Entries: append(entries, registry.File("usr/bin/manager", program(size)))}
}

func TestLocator_SparesTheLowerLayers(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	image := registry.MustImage(t, squashed(t, 1<<20), registry.Layer{Entries: append([]registry.Entry{registry.Opaque(root)}, filesIn(t, root, aws(manifests))...)})
	reference := reg.MustPush(t, "providers/aws", hinting(t, image, 1, aws(manifests)))
	reg.Reset()
	fetches(t, client(t), reference, from(aws(manifests), reference))
	asked := reg.Requests()
	if asked[registry.Key{Method: "GET", Kind: "manifests"}] != 1 || asked[registry.Key{Method: "GET", Kind: "blobs"}] != 1 {
		t.Errorf("asked for %v, want one manifest and one blob", asked)
	}
}

// labelled returns a Docker image of one layer with the locator in labels.
func labelled(t testing.TB, layer registry.Layer, b extractor.Bundle) v1.Image {
	t.Helper()
	plain, err := registry.Format{Docker: true}.Image(layer)
	if err != nil {
		t.Fatal(err)
	}
	files, err := b.Files()
	if err != nil {
		t.Fatal(err)
	}
	image, err := registry.Format{Docker: true, Labels: LocatorAnnotations(layerOf(t, plain, 0).Digest, files)}.Image(layer)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// The config is not read.
func TestLocator_CostsNoRequest(t *testing.T) {
	for name, layer := range map[string]registry.Layer{"small": shipped(t, aws(manifests)), "large": squashed(t, 2<<20)} {
		reg := registry.New(t, registry.Options{})
		reference := reg.MustPush(t, "providers/aws", labelled(t, layer, aws(manifests)))
		reg.Reset()
		fetches(t, client(t), reference, from(aws(manifests), reference))
		if n := reg.Requests()[registry.Key{Method: "GET", Kind: "blobs"}]; n != 1 {
			t.Errorf("%s: %d blobs were asked for", name, n)
		}
	}
}

// Images that are built FROM a packed image, or recompressed, inherit its locator.
func TestLocator_HasNoEffect(t *testing.T) {
	image := registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"}, shipped(t, aws(manifests)))
	annotated := func(values map[string]string) v1.Image { return mutate.Annotations(image, values).(v1.Image) }
	own := layerOf(t, image, 1).Digest.String()
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
		"malformed layer":               {annotated(map[string]string{AnnotationLayer: "uppermost", AnnotationListing: foreign}), from(aws(manifests), "")},
		"no listing":                    {annotated(map[string]string{AnnotationLayer: own}), from(aws(manifests), "")},
		"no layer":                      {annotated(map[string]string{AnnotationListing: foreign}), from(aws(manifests), "")},
		"other listing":                 {annotated(map[string]string{AnnotationLayer: own, AnnotationListing: foreign}), from(aws(manifests), "")},
		"layer without a bundle":        {hinting(t, registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"}), 0, aws(manifests)), nil},
		"layer below the bundle's":      {hinting(t, image, 0, aws(manifests)), from(aws(manifests), "")},
		"other bundle":                  {hinting(t, image, 1, aws("kind: Other\n")), from(aws(manifests), "")},
		"derived image, unrelated file": {above(registry.File("capi-manifests/x", "")), from(aws(manifests), "")},
		"derived image, other layer":    {above(registry.File("usr/bin/manager", "")), from(aws(manifests), "")},
		"derived image, new bundle":     {above(filesIn(t, root, newer)...), from(newer, "")},
		"derived image, bundle deleted": {above(registry.Whiteout(root)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			reads(t, test.image, test.want)
		})
	}
}

// An invalid layer is an error with a locator as without.
func TestLocator_InvalidLayer(t *testing.T) {
	refusedFor(t, hinting(t, registry.MustImage(t, registry.Layer{Archive: bytes.Repeat([]byte("no "), 1000)}), 0, aws(manifests)), "entry 1 of the archive")
	refusedFor(t, hinting(t, registry.MustImage(t, shipped(t, aws(manifests)), registry.Layer{Entries: []registry.Entry{registry.File("../capi-manifests/x", "")}}), 0, aws("kind: Other\n")), "invalid name: it contains")
}

// Of two bundles in a layer, the result is the second one, as unpackers show it, even if a locator names the first one.
func TestLocator_SecondBundleInTheLayer(t *testing.T) {
	newer := aws("kind: Newer\n")
	for name, between := range map[string]int{"directly": 0, "after a large file": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			layer := shipped(t, aws(manifests))
			layer.Entries = append(layer.Entries, registry.File("usr/bin/manager", program(between)))
			layer.Entries = append(layer.Entries, filesIn(t, root, newer)...)
			reg := registry.New(t, registry.Options{})
			located := reg.MustPush(t, "providers/located", hinting(t, registry.MustImage(t, layer), 0, aws(manifests)))
			fetches(t, client(t), located, from(newer, located))
		})
	}
}

// A registry can send any bytes until the digest of the layer is verified. They are not used.
func TestLocator_RegistryCannotForgeTheBundle(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	image := hinting(t, registry.MustImage(t, squashed(t, 1<<20)), 0, aws(manifests))
	reference := reg.MustPush(t, "providers/aws", image)
	lie := squashed(t, 1<<20)
	lie.Entries[2].Body = strings.Replace(lie.Entries[2].Body, "capa-system", "evil-system", 1)
	reg.Fail(registry.Fault{Path: layerOf(t, image, 0).Digest.String(), Body: registry.Content(t, registry.MustImage(t, lie), 0)})
	_, err := client(t).Fetch(t.Context(), reference)
	if _, ok := errors.AsType[*fetch.DigestError](err); !ok || errors.Is(err, extractor.ErrInvalid) {
		t.Errorf("got %v, want a DigestError", err)
	}
}
