// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"
	"os"
	"os/exec"
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

// hostileRow is the cost of one hostile image: its bytes in the registry, and the CPU time and the peak of the resident memory of
// a process that reads only this image.
type hostileRow struct {
	name   string
	bytes  int64
	cpu    time.Duration
	memory int64
}

// TestRegistry_BoundsEachHostileImage reads every hostile image of this package's tests in a separate process. With -v it prints
// the table of their costs.
func TestRegistry_BoundsEachHostileImage(t *testing.T) {
	reg := registry.New(t, registry.Options{})
	images := map[string]registry.Layer{"38 chained symlinks of 2,000 components": {Entries: chainedSymlinks()}}
	for name, layer := range hostile(t) {
		images[name] = layer
	}
	for name, refused := range refusals {
		images[name] = registry.Layer{Entries: refused.entries}
	}
	var lock sync.Mutex
	var rows []hostileRow
	t.Run("images", func(t *testing.T) {
		for name, layer := range images {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				image := registry.MustImage(t, layer)
				row := costOf(t, reg.MustPush(t, "hostile/image", image))
				row.name, row.bytes = name, layerBytes(t, image)
				if row.cpu > mostCPU || row.memory > mostMemory {
					t.Errorf("%s of CPU time and %d MiB, more than %s or %d MiB", row.cpu, row.memory>>20, mostCPU, mostMemory>>20)
				}
				lock.Lock()
				defer lock.Unlock()
				rows = append(rows, row)
			})
		}
	})
	t.Log(hostileTable(rows))
}

// costOf reads an image in a separate process.
func costOf(t *testing.T, reference string) hostileRow {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "GOGC=100", inOwnProcess+"="+reference)
	out, err := cmd.CombinedOutput()
	row := hostileRow{cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	var wrong int
	if _, scanErr := fmt.Sscan(string(out), &row.memory, &wrong); err != nil || scanErr != nil {
		t.Fatalf("%v, %v: %s", err, scanErr, out)
	}
	return row
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
