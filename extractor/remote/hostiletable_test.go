// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/test/registry"
)

// mostCPU is the maximum CPU time for reading any image.
const mostCPU = 10 * time.Second

// hostileRow is the cost of reading only one hostile image, and its bytes in the registry.
type hostileRow struct {
	name, reference string
	bytes           int64
	cost
}

// TestRegistry_BoundsHostileImages reads every hostile image of this package's tests in a process of its own, and the ones of
// hostile also as one release. With -v it prints the table of their costs.
func TestRegistry_BoundsHostileImages(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	others := map[string]registry.Layer{"38 chained symlinks of 2,000 components": {Entries: chainedSymlinks()}}
	for name, refused := range refusals {
		others[name] = registry.Layer{Entries: refused.entries}
	}
	release := pushEach(t, reg, hostile(t))
	all := pushEach(t, reg, others)
	maps.Copy(all, release)
	var lock sync.Mutex
	var rows []hostileRow
	t.Run("alone", func(t *testing.T) {
		for name, row := range all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				row.measure(t)
				lock.Lock()
				defer lock.Unlock()
				rows = append(rows, row)
			})
		}
	})
	t.Log(hostileTable(rows))
	t.Run("as one release", func(t *testing.T) { boundRelease(t, reg, release) })
}

// pushEach pushes an image with each layer. The rows lack the costs.
func pushEach(t *testing.T, reg *registry.Registry, layers map[string]registry.Layer) map[string]hostileRow {
	t.Helper()
	rows := map[string]hostileRow{}
	for name, layer := range layers {
		image := registry.MustImage(t, layer)
		rows[name] = hostileRow{name: name, reference: reg.MustPush(t, "hostile/image", image), bytes: layerBytes(t, image)}
	}
	return rows
}

// measure reads the image in a separate process, and fails the test if that costs too much.
func (r *hostileRow) measure(t *testing.T) {
	t.Helper()
	r.cost = costOf(t, r.reference)
	if r.cpu > mostCPU || r.memory > mostMemory || r.complaints != "" {
		t.Errorf("%s of CPU time and %d MiB, more than %s or %d MiB: %s", r.cpu, r.memory>>20, mostCPU, mostMemory>>20, r.complaints)
	}
}

// layerBytes returns the size of the layers of an image in a registry.
func layerBytes(t *testing.T, image v1.Image) (total int64) {
	t.Helper()
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range manifest.Layers {
		total += layer.Size
	}
	return total
}

// hostileTable returns a table with the most expensive images first.
func hostileTable(rows []hostileRow) string {
	slices.SortFunc(rows, func(a, b hostileRow) int { return int(b.cpu - a.cpu) })
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d hostile images\nIMAGE\tBYTES\tCPU\tMEMORY\n", len(rows))
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d MiB\n", r.name, r.bytes, r.cpu.Round(time.Millisecond), r.memory>>20)
	}
	if err := w.Flush(); err != nil {
		panic(err) // a strings.Builder accepts every write
	}
	return text.String()
}
