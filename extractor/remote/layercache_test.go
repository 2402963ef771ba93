// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

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

// An invalid layer is known too, and read again by no image with it.
func TestLayerCache_InvalidLayerIsReadOnce(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	reference := reg.MustPush(t, "providers/aws", registry.MustImage(t, registry.Layer{Archive: []byte(strings.Repeat("no ", 1000))}))
	reg.Reset()
	c := client(t)
	var texts []string
	for range 2 {
		_, err := c.Fetch(t.Context(), reference)
		texts = append(texts, fmt.Sprint(err))
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
