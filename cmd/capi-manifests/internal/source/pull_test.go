// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/test/registry"
)

// mirrored pushes an image to a registry and its mirror, and returns a client that asks the mirror first.
func mirrored(t *testing.T, image v1.Image) (client *fetch.Client, at *registry.Registry, own, copied string) {
	t.Helper()
	first, second := registry.New(t, registry.Options{Address: "127.0.0.2:0"}), registry.New(t, registry.Options{})
	own, copied = second.MustPush(t, "release/base", image), first.MustPush(t, "mirror/base", image)
	conf := "[[registry]]\nlocation = \"" + second.Host() + "/release\"\n[[registry.mirror]]\nlocation = \"" + first.Host() + "/mirror\"\n"
	rules, err := mirror.Parse(t.TempDir(), []byte(conf))
	if err != nil {
		t.Fatal(err)
	}
	settings := func(context.Context) (fetch.Settings, error) { return fetch.Settings{Mirrors: rules}, nil }
	client = &fetch.Client{Settings: settings, Retry: fetch.Retry{Backoff: time.Millisecond}, OnSourceFailure: func(context.Context, *fetch.Error) {}}
	t.Cleanup(client.Close)
	return client, first, own, copied
}

// The layer of a base is complete although its first source fails in the middle, or has other bytes from there on.
func TestPull_ContinuesALayerAtAnotherSource(t *testing.T) {
	content := strings.Repeat("a layer of a base, ", 20_000)
	image := registry.MustImage(t, registry.Layer{Entries: []registry.Entry{registry.File("data", content)}, Compression: registry.None})
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	want, err := contentOf(layers[0])
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(want)
	other[len(other)/2] ^= 1
	for name, test := range map[string]struct {
		fault registry.Fault
		good  bool
	}{
		"sound":           {registry.Fault{Path: "/blobs/none"}, true},
		"a cut body":      {registry.Fault{Path: "/blobs/", CutAfter: len(want) / 2}, true},
		"different bytes": {registry.Fault{Path: "/blobs/", Body: other}, false},
	} {
		t.Run(name, func(t *testing.T) {
			client, first, reference, _ := mirrored(t, image)
			first.Fail(test.fault)
			pulled, err := source.Pull(t.Context(), client, reference)
			if err != nil {
				t.Fatal(err)
			}
			layers, err := pulled.(v1.Image).Layers()
			if err != nil {
				t.Fatal(err)
			}
			got, err := contentOf(layers[0])
			if (err == nil) != test.good || err == nil && !bytes.Equal(got, want) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
}

func contentOf(layer v1.Layer) ([]byte, error) {
	body, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// Find has no result only if each source says so: a source that fails could have it.
func TestFind_AsksEachSource(t *testing.T) {
	image := registry.MustImage(t, registry.Layer{Txtar: "-- a --\n"})
	for name, test := range map[string]struct {
		fault    registry.Fault
		tag      string
		found    bool
		wantsErr bool
	}{
		"in both":                {registry.Fault{Path: "/none/"}, "", true, false},
		"only in the registry":   {registry.Fault{Status: 404}, "", true, false},
		"in none":                {registry.Fault{Path: "/none/"}, "missing", false, false},
		"a failing mirror, none": {registry.Fault{Status: 400}, "missing", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			client, first, reference, _ := mirrored(t, image)
			first.Fail(test.fault)
			ref, err := referenceFor(reference, test.tag)
			if err != nil {
				t.Fatal(err)
			}
			found, err := source.Find(t.Context(), client, ref)
			if (found != nil) != test.found || (err != nil) != test.wantsErr {
				t.Errorf("got %v, %v", found, err)
			}
		})
	}
}

// referenceFor returns a tag in the repository of a reference, or the reference.
func referenceFor(reference, tag string) (name.Reference, error) {
	ref, err := name.NewDigest(reference)
	if tag == "" || err != nil {
		return ref, err
	}
	return ref.Context().Tag(tag), nil
}
