// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote/pull"
	"github.com/capi-installer/capi-installer/test/registry"
)

// hinting returns an image that says that its bundle is b, in its n-th layer.
func hinting(t testing.TB, image v1.Image, n int, b extractor.Bundle) v1.Image {
	t.Helper()
	files, err := b.Files()
	if err != nil {
		t.Fatal(err)
	}
	return mutate.Annotations(image, Hints(layerOf(t, image, n).Digest, files)).(v1.Image)
}

func layerOf(t testing.TB, image v1.Image, n int) v1.Descriptor {
	t.Helper()
	m, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return m.Layers[n]
}

// squashed is a layer of a bundle and a program of size bytes behind it, which does not compress.
func squashed(t testing.TB, size int) registry.Layer {
	entries := append([]registry.Entry{registry.File("etc/os-release", "")}, filesIn(t, root, aws(manifests))...)
	return registry.Layer{Entries: append(entries, registry.File("usr/bin/manager", program(size)))}
}

// meter counts the bytes of the bodies that were read.
type meter struct {
	next  http.RoundTripper
	bytes atomic.Int64
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := m.next.RoundTrip(req)
	if err == nil {
		body := resp.Body
		resp.Body = struct {
			io.Reader
			io.Closer
		}{readFunc(func(p []byte) (int, error) {
			n, err := body.Read(p)
			m.bytes.Add(int64(n))
			return n, err
		}), body}
	}
	return resp, err
}

func metered(c *Registry) *meter {
	m := &meter{}
	c.Puller.Wrap = func(next http.RoundTripper) http.RoundTripper {
		m.next = next
		return m
	}
	return m
}

func TestAHintSparesTheLowerLayers(t *testing.T) {
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

func TestInASquashedImageReadingEndsWithTheLastListedFile(t *testing.T) {
	for name, image := range map[string]v1.Image{
		"annotations": hinting(t, registry.MustImage(t, squashed(t, 8<<20)), 0, aws(manifests)),
		"labels":      labelled(t, squashed(t, 8<<20), aws(manifests)),
	} {
		t.Run(name, func(t *testing.T) {
			reg := registry.New(t, registry.Options{})
			reference := reg.MustPush(t, "providers/aws", image)
			c := client(t)
			m := metered(c)
			fetches(t, c, reference, from(aws(manifests), reference))
			if n := m.bytes.Load(); n > 256<<10 {
				t.Errorf("%d bytes were read", n)
			}
			if c.layers.load(t.Context(), layerOf(t, image, 0).Digest, c.Limits.orDefaults()) != nil {
				t.Error("a part of a layer was kept as the whole")
			}
		})
	}
}

// labelled is a Docker image of one layer, with the hints as labels.
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
	image, err := registry.Format{Docker: true, Labels: Hints(layerOf(t, plain, 0).Digest, files)}.Image(layer)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestASmallLayerIsNotWorthARequestForLabels(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	reference := reg.MustPush(t, "providers/aws", labelled(t, shipped(t, aws(manifests)), aws(manifests)))
	reg.Reset()
	fetches(t, client(t), reference, from(aws(manifests), reference))
	if n := reg.Requests()[registry.Key{Method: "GET", Kind: "blobs"}]; n != 1 {
		t.Errorf("%d blobs were asked for", n)
	}
}

func TestAWrongHintIsAnError(t *testing.T) {
	image := registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"}, shipped(t, aws(manifests)))
	annotated := func(texts map[string]string) v1.Image { return mutate.Annotations(image, texts).(v1.Image) }
	own := layerOf(t, image, 1).Digest.String()
	nobodys := "sha256:" + strings.Repeat("a", 64)
	above := func(entries ...registry.Entry) v1.Image {
		upper := registry.Layer{Entries: entries}
		return hinting(t, registry.MustImage(t, shipped(t, aws(manifests)), upper), 0, aws(manifests))
	}
	for name, test := range map[string]struct {
		image v1.Image
		says  string
	}{
		"of no layer of the image":        {annotated(map[string]string{HintLayer: nobodys, HintListing: nobodys}), "which the image does not have"},
		"of no digest":                    {annotated(map[string]string{HintLayer: "uppermost", HintListing: nobodys}), "reading the hint " + HintLayer},
		"without a listing":               {annotated(map[string]string{HintLayer: own}), "reading the hint " + HintListing},
		"without a layer":                 {annotated(map[string]string{HintListing: nobodys}), "reading the hint " + HintLayer},
		"of another listing":              {annotated(map[string]string{HintLayer: own, HintListing: nobodys}), "it holds no bundle with the listing"},
		"of a layer without a bundle":     {hinting(t, registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"}), 0, aws(manifests)), "it holds no bundle with the listing"},
		"of the layer below the bundle's": {hinting(t, image, 0, aws(manifests)), "a layer above it"},
		"of another bundle":               {hinting(t, image, 1, aws("kind: Other\n")), "it holds no bundle with the listing"},
		"with a file in a layer above":    {above(registry.File("capi-manifests/x", "")), "a layer above it"},
		"hidden by a layer above":         {above(registry.Whiteout(root)), "a layer above it"},
		"emptied by a layer above":        {above(registry.Opaque("")), "a layer above it"},
		"broken by a layer above":         {above(registry.File("../capi-manifests/x", "")), "a layer above it"},
		"of a layer that is no archive":   {hinting(t, registry.MustImage(t, registry.Layer{Archive: bytes.Repeat([]byte("no "), 1000)}), 0, aws(manifests)), "entry 1 of the archive"},
	} {
		t.Run(name, func(t *testing.T) { refusedFor(t, test.image, test.says) })
	}
}

func TestALayerAboveTheBundlesMayHoldOtherThings(t *testing.T) {
	image := registry.MustImage(t, shipped(t, aws(manifests)), registry.Layer{Txtar: "-- usr/bin/manager --\n"})
	got, err := FromImage(t.Context(), hinting(t, image, 0, aws(manifests)), extractor.Origin{})
	if err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

// A registry may send what it likes until the digest of the layer is known. What
// the hint binds cannot be another bundle, and what it does not bind is not used.
func TestARegistryCannotUseAHintToLie(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	image := hinting(t, registry.MustImage(t, squashed(t, 1<<20)), 0, aws(manifests))
	reference := reg.MustPush(t, "providers/aws", image)
	lie := squashed(t, 1<<20)
	lie.Entries[2].Body = strings.Replace(lie.Entries[2].Body, "capa-system", "evil-system", 1)
	blob, err := registry.MustImage(t, lie).Layers()
	if err != nil {
		t.Fatal(err)
	}
	body, err := blob[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	reg.Fail(registry.Fault{Path: layerOf(t, image, 0).Digest.String(), Body: data})
	_, err = client(t).Fetch(t.Context(), reference)
	if _, ok := errors.AsType[*pull.DigestError](err); !ok || errors.Is(err, extractor.ErrInvalid) {
		t.Errorf("got %v, want a DigestError", err)
	}
}
