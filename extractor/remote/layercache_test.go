// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/capi-installer/capi-installer/extractor/cache"
	"github.com/capi-installer/capi-installer/extractor/remote/overlay"
	"github.com/capi-installer/capi-installer/test/registry"
)

// release pushes n images with a common base and different programs, and returns their references.
func release(t testing.TB, reg *registry.Registry, n int) (references []string) {
	base := registry.Layer{Txtar: "-- etc/os-release --\n"}
	for i := range n {
		own := registry.Layer{Txtar: fmt.Sprintf("-- usr/bin/manager --\n%d\n", i)}
		references = append(references, reg.MustPush(t, fmt.Sprintf("providers/p%d", i), registry.MustImage(t, base, own)))
	}
	reg.Reset()
	return references
}

// blobsAskedFor returns the number of requests for each blob, in any repository.
func blobsAskedFor(reg *registry.Registry) map[string]int {
	asked := map[string]int{}
	for path, n := range reg.Paths() {
		if _, digest, ok := strings.Cut(path, "/blobs/"); ok {
			asked[digest] += n
		}
	}
	return asked
}

func TestLayerCache_SharedLayerIsFetchedOnce(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	references := release(t, reg, 8)
	reg.Fail(registry.Fault{Path: "/blobs/", Pause: 5 * time.Millisecond, Chunk: 50}) // all are in progress at once
	c := client(t)
	var group sync.WaitGroup
	for _, reference := range references {
		group.Go(func() { fetches(t, c, reference, nil) })
	}
	group.Wait()
	asked := blobsAskedFor(reg)
	for digest, n := range asked {
		if n != 1 {
			t.Errorf("%s was asked for %d times", digest, n)
		}
	}
	if len(asked) != len(references)+1 {
		t.Errorf("%d blobs were asked for, want %d", len(asked), len(references)+1)
	}
}

func TestLayerCache_NoRereadAfterARestart(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	references := release(t, reg, 3)
	store := &cache.Store{Dir: t.TempDir()}
	for range 2 {
		reg.Reset()
		c := client(t)
		c.Layers = store
		for _, reference := range references {
			fetches(t, c, reference, nil)
		}
	}
	want := map[registry.Key]int{{Method: "GET", Kind: "ping"}: 3, {Method: "GET", Kind: "manifests"}: 3}
	if diff := cmp.Diff(want, reg.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestLayerCache_InvalidLayerIsReadOnce(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	reference := reg.MustPush(t, "providers/aws", registry.MustImage(t, registry.Layer{Archive: []byte(strings.Repeat("no ", 1000))}))
	reg.Reset()
	c := client(t)
	c.Layers = &cache.Store{Dir: t.TempDir()}
	var texts []string
	for range 2 {
		_, err := c.Fetch(t.Context(), reference)
		texts = append(texts, fmt.Sprint(err))
		forget(c)
	}
	if n := reg.Requests()[registry.Key{Method: "GET", Kind: "blobs"}]; n != 1 || texts[0] != texts[1] || !strings.Contains(texts[0], "entry 1 of the archive") {
		t.Errorf("asked for %d blobs, got %q", n, texts)
	}
}

// A layer can be in a repository that the credentials of another image give no access to.
func TestLayerCache_RetriesFromTheOwnRepository(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	references := release(t, reg, 2)
	reg.Fail(registry.Fault{Path: "/v2/providers/p0/blobs/", Status: 403, Pause: 5 * time.Millisecond})
	c := client(t)
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := c.Fetch(t.Context(), references[0]); err == nil {
			t.Error("want an error")
		}
	})
	group.Go(func() { fetches(t, c, references[1], nil) })
	group.Wait()
}

func TestOverlay_DecidedBeforeTheLowestLayer(t *testing.T) {
	newer := filesIn(t, root, aws("kind: Newer\n"))
	profile := registry.Layer{Txtar: "-- capi-operator-manifests/x/metadata.yaml --\nname: core\nattributes: {type: core, version: v1}\n-- capi-operator-manifests/x/manifests.yaml --\nkind: Namespace\n"}
	for name, test := range map[string]struct {
		top   registry.Layer
		blobs int
	}{
		"a bundle that its metadata completes": {registry.Layer{Entries: newer}, 1},
		"a profile, which may have others":     {profile, 2},
		"a whiteout of one root":               {registry.Layer{Entries: []registry.Entry{registry.Whiteout("capi-manifests")}}, 2},
		"whiteouts of both roots":              {registry.Layer{Entries: []registry.Entry{registry.Whiteout("capi-manifests"), registry.Whiteout("capi-operator-manifests")}}, 1},
		"nothing of ours":                      {registry.Layer{Txtar: "-- a --\n"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			reg := registry.New(t, registry.Options{})
			reference := reg.MustPush(t, "p", registry.MustImage(t, registry.Layer{Txtar: "-- b --\n"}, test.top))
			reg.Reset()
			if _, err := client(t).Fetch(t.Context(), reference); err != nil {
				t.Fatal(err)
			}
			if asked := blobsAskedFor(reg); len(asked) != test.blobs {
				t.Errorf("asked for %v, want %d layers", asked, test.blobs)
			}
		})
	}
}

func TestIndex_EncodeDecode(t *testing.T) {
	limits := overlay.Limits{}.WithDefaults()
	rapid.Check(t, func(t *rapid.T) {
		image, err := registry.Image(layerStacks().Draw(t, "layers")[0])
		if err != nil {
			t.Fatal(err)
		}
		m, err := image.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		d := m.Layers[0]
		var p *overlay.Index
		var targets overlay.Targets
		scan := func(body io.Reader) (err error) {
			p, err = overlay.Scanner{Limits: limits, Targets: targets}.Scan(context.Background(), body, d.Size)
			return err
		}
		err = localBlobs(image)(context.Background(), "layer", d, scan)
		if err == nil && p.Targets() != nil {
			targets = p.Targets()
			err = localBlobs(image)(context.Background(), "layer", d, scan)
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := p.Encode(limits)
		if err != nil {
			t.Fatal(err)
		}
		again, err := overlay.Decode(data, limits)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(p, again) {
			t.Fatalf("encoded %#v, decoded %#v", p, again)
		}
		tighter := limits
		tighter.Files--
		if _, err := overlay.Decode(data, tighter); err == nil {
			t.Fatal("it was accepted under other limits")
		}
	})
}
