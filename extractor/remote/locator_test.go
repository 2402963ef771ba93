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

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
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
	c.Client.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		m.next = next
		return m
	}
	return m
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

func TestLocator_StopsInASquashedLayer(t *testing.T) {
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
			if c.layers.load(t.Context(), layerOf(t, image, 0).Digest, c.Limits.withDefaults().Contents) != nil {
				t.Error("a part of a layer was kept as the whole")
			}
		})
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

func TestLocator_NoLabelsForASmallLayer(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	reference := reg.MustPush(t, "providers/aws", labelled(t, shipped(t, aws(manifests)), aws(manifests)))
	reg.Reset()
	fetches(t, client(t), reference, from(aws(manifests), reference))
	if n := reg.Requests()[registry.Key{Method: "GET", Kind: "blobs"}]; n != 1 {
		t.Errorf("%d blobs were asked for", n)
	}
}

// readFunc implements io.Reader.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// Images that are built FROM a packed image, or recompressed, inherit its locator.
func TestLocator_IgnoredIfItDoesNotFit(t *testing.T) {
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
		"derived image, new bundle":     {above(filesIn(t, root, newer)...), from(newer, "")},
		"derived image, bundle deleted": {above(registry.Whiteout(root)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FromImage(t.Context(), test.image, extractor.Origin{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLocator_LogsWhyItIsIgnored(t *testing.T) {
	var log strings.Builder
	ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) { log.WriteString(args) }, funcr.Options{}))
	image := hinting(t, registry.MustImage(t, shipped(t, aws(manifests))), 0, aws("kind: Other\n"))
	if _, err := FromImage(ctx, image, extractor.Origin{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "Ignoring the bundle locator") || !strings.Contains(log.String(), "holds no bundle with the listing") {
		t.Errorf("logged %s", log.String())
	}
}

// An invalid layer is an error with a locator as without.
func TestLocator_InvalidLayer(t *testing.T) {
	refusedFor(t, hinting(t, registry.MustImage(t, registry.Layer{Archive: bytes.Repeat([]byte("no "), 1000)}), 0, aws(manifests)), "entry 1 of the archive")
	refusedFor(t, hinting(t, registry.MustImage(t, shipped(t, aws(manifests)), registry.Layer{Entries: []registry.Entry{registry.File("../capi-manifests/x", "")}}), 0, aws("kind: Other\n")), "invalid name: it contains")
}

// The result does not depend on the position at which reading stops, nor on the cache: the
// listing binds the first bundle, whether a second one follows directly or after a large file.
func TestLocator_SecondBundleInTheLayer(t *testing.T) {
	newer := aws("kind: Newer\n")
	for name, between := range map[string]int{"directly": 0, "after a large file": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			layer := shipped(t, aws(manifests))
			layer.Entries = append(layer.Entries, registry.File("usr/bin/manager", program(between)))
			layer.Entries = append(layer.Entries, filesIn(t, root, newer)...)
			plain := registry.MustImage(t, layer)
			reg := registry.New(t, registry.Options{})
			located := reg.MustPush(t, "providers/located", hinting(t, plain, 0, aws(manifests)))
			unlocated := reg.MustPush(t, "providers/plain", plain)
			c := client(t)
			fetches(t, c, located, from(aws(manifests), located))
			fetches(t, c, unlocated, from(newer, unlocated)) // as unpackers show it
			fetches(t, c, located, from(aws(manifests), located))
		})
	}
}

func TestLocator_UnrelatedLayerAbove(t *testing.T) {
	image := registry.MustImage(t, shipped(t, aws(manifests)), registry.Layer{Txtar: "-- usr/bin/manager --\n"})
	got, err := FromImage(t.Context(), hinting(t, image, 0, aws(manifests)), extractor.Origin{})
	if err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

// A registry can send any bytes until the digest of the layer is verified. It
// cannot replace files that the locator binds, and other files are not used.
func TestLocator_RegistryCannotForgeTheBundle(t *testing.T) {
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
	if _, ok := errors.AsType[*fetch.DigestError](err); !ok || errors.Is(err, extractor.ErrInvalid) {
		t.Errorf("got %v, want a DigestError", err)
	}
}
