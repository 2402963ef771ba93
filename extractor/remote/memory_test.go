// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/registry"
)

// mostMemory is the maximum peak memory for reading any images.
const mostMemory = 256 << 20

// inOwnProcess is the environment variable with the references that a separate process reads.
const inOwnProcess = "REMOTE_TEST_REFERENCES"

// peakOf fetches images as one release, and prints the peak memory of this process
// and the number of invalid images.
func peakOf(references []string) int {
	c := &Registry{}
	fetcher := Limit(c, 20)
	var group sync.WaitGroup
	var mu sync.Mutex
	wrong := 0
	for _, reference := range references {
		group.Go(func() {
			bundles, err := fetcher.Fetch(context.Background(), reference)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, extractor.ErrInvalid) {
				wrong++
			} else if err != nil || len(bundles) > 0 {
				fmt.Fprintf(os.Stderr, "%d bundles, %v\n", len(bundles), err)
			}
		})
	}
	group.Wait()
	status, err := os.ReadFile("/proc/self/status")
	_, after, found := strings.Cut(string(status), "VmHWM:")
	var kib int
	if _, scanErr := fmt.Sscan(after, &kib); err != nil || !found || scanErr != nil {
		fmt.Fprintln(os.Stderr, "the peak of the memory is not known:", err, scanErr)
		return 1
	}
	fmt.Println(kib<<10, wrong)
	return 0
}

// cost is what reading images takes a process, its peak memory included, and what it reports.
type cost struct {
	cpu           time.Duration
	memory, wrong int
	complaints    string
}

// costOf reads images in a process of its own.
func costOf(t *testing.T, references ...string) cost {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "GOGC=50", inOwnProcess+"="+strings.Join(references, " "))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	c := cost{cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), complaints: complaints.String()}
	if _, scanErr := fmt.Sscan(string(out), &c.memory, &c.wrong); err != nil || scanErr != nil {
		t.Fatalf("%v, %v\n%s", err, scanErr, c.complaints)
	}
	return c
}

// repeated returns an archive of n entries like e, with different names if numbered.
func repeated(t testing.TB, n int, numbered bool, e registry.Entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	name := e.Name
	for i := range n {
		if numbered {
			e.Name = fmt.Sprintf("%s%d", name, i)
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// hostile returns layers with the highest cost that we could construct.
func hostile(t testing.TB) map[string]registry.Layer {
	zeros := registry.File("usr/zeros", strings.Repeat("\x00", 128<<20))
	text := make([]byte, extractor.MaxManifests)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range text {
		text[i] = byte(' ' + random.IntN(64))
	}
	large := func(n int) registry.Layer {
		copy(text, fmt.Sprint(n))
		entry := registry.File("capi-manifests/manifests.yaml", string(text))
		return registry.Layer{Entries: []registry.Entry{registry.File("capi-manifests/metadata.json", "{}"), entry}, Compression: registry.Zstd}
	}
	member := gzipped(t, repeated(t, 10_000, false, registry.File("etc/x", "")))
	found := map[string]registry.Layer{
		"a gzip bomb":                 {Entries: []registry.Entry{zeros}},
		"a zstd bomb":                 {Entries: []registry.Entry{zeros}, Compression: registry.Zstd},
		"a zstd window of 2 GiB":      {Archive: []byte("x"), Blob: []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0xa8, 1, 0, 0}},
		"a million entries":           {Archive: []byte("x"), Blob: bytes.Repeat(member, 100)},
		"100,000 entries below":       {Archive: repeated(t, 100_000, true, registry.File("capi-manifests/", ""))},
		"100,000 whiteouts":           {Archive: repeated(t, 100_000, true, registry.File("capi-manifests/.wh.", ""))},
		"200,000 symlinks":            {Archive: repeated(t, 200_000, true, registry.Symlink("usr/lib/x", strings.Repeat("y", 90)))},
		"100,000 empty gzip members":  {Archive: []byte("x"), Blob: append(bytes.Repeat(gzipped(t, nil), 100_000), "no more"...)},
		"a sparse file of one TiB":    {Archive: sparse("capi-manifests/metadata.json", "1099511627776")},
		"a name of 900 KiB":           {Entries: []registry.Entry{registry.File("capi-manifests/"+strings.Repeat("n", 900<<10), "")}},
		"a path of 300,000 parts":     {Entries: []registry.Entry{registry.File("capi-manifests/"+strings.Repeat("n/", 300_000)+"n", "")}},
		"metadata of aliases":         {Txtar: "-- capi-operator-manifests/a/metadata.yaml --\n" + aliases() + "-- capi-operator-manifests/a/manifests.yaml --\na: b\n"},
		"metadata of brackets":        {Txtar: "-- capi-manifests/metadata.json --\n" + strings.Repeat("[", 60<<10) + "\n-- capi-manifests/manifests.yaml --\na: b\n"},
		"metadata of yaml's brackets": {Txtar: "-- capi-operator-manifests/a/metadata.yaml --\n" + strings.Repeat("[", 60<<10) + "\n-- capi-operator-manifests/a/manifests.yaml --\na: b\n"},
	}
	for n := range 4 {
		found[fmt.Sprintf("manifests of 32 MiB, %d", n)] = large(n)
	}
	return found
}

// aliases returns lines of YAML that each expand to ten times the previous one.
func aliases() string {
	var out strings.Builder
	out.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for n := range 50 {
		fmt.Fprintf(&out, "a%d: &a%d [%s]\n", n+1, n+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", n), 10), ","))
	}
	return out.String()
}

// boundRelease reads images together, with an index and a manifest that are too long.
func boundRelease(t *testing.T, reg *registry.Registry, images map[string]hostileRow) {
	t.Helper()
	var references []string
	want := 0
	for name, image := range images {
		references = append(references, image.reference)
		if name != "a million entries" { // large, and within the limits
			want++
		}
	}
	for name, body := range map[string]string{
		"an index of 25,000 images": `{"schemaVersion":2,"manifests":[` + strings.TrimSuffix(strings.Repeat(`{"size":1,"digest":"sha256:`+strings.Repeat("a", 64)+`","platform":{"os":"plan9","architecture":"arm"}},`, 25_000), ",") + `]}`,
		"a manifest of 25,000 layers": `{"schemaVersion":2,"config":{"size":1,"digest":"sha256:` + strings.Repeat("a", 64) + `"},"layers":[` +
			strings.TrimSuffix(strings.Repeat(`{"mediaType":"`+string(types.OCILayer)+`","size":1,"digest":"sha256:`+strings.Repeat("a", 64)+`"},`, 25_000), ",") + `]}`,
	} {
		digest, _, err := v1.SHA256(strings.NewReader(body))
		if err != nil || len(body) > 4<<20 {
			t.Fatal(name, len(body), err)
		}
		reg.Fail(registry.Fault{Path: digest.String(), Status: 200, Body: []byte(body)})
		references = append(references, reg.Host()+"/hostile/image@"+digest.String())
		want++
	}
	cost := costOf(t, references...)
	crowded := strings.Count(cost.complaints, "retrying later")
	t.Logf("%d hostile images took %d MiB at the peak; %d were refused, %d had to wait", len(references), cost.memory>>20, cost.wrong, crowded)
	if cost.memory > mostMemory {
		t.Errorf("the peak is more than %d MiB", mostMemory>>20)
	}
	if cost.wrong+crowded != want || strings.Count(cost.complaints, "\n") != crowded {
		t.Errorf("%d were refused and %d had to wait, of %d\n%.3000s", cost.wrong, crowded, want, cost.complaints)
	}
}

// Reading such an image later does not help: it alone exceeds the memory limit.
func TestRegistry_TooManyManifestsAreInvalid(t *testing.T) {
	large := func(profile string) registry.Layer {
		dir := "capi-operator-manifests/" + profile
		return registry.Layer{Entries: []registry.Entry{
			registry.File(dir+"/metadata.yaml", "name: a\nattributes: {type: core, version: v1}\n"),
			registry.File(dir+"/manifests.yaml", program(extractor.MaxManifests)),
		}, Compression: registry.Zstd}
	}
	reg := registry.New(t, registry.Options{})
	reference := reg.MustPush(t, "hostile/image", registry.MustImage(t, large("a"), large("b")))
	_, err := client(t).Fetch(t.Context(), reference)
	if !errors.Is(err, extractor.ErrInvalid) || !strings.Contains(err.Error(), "bytes of manifests of an image in memory") {
		t.Errorf("got %v, want an ErrInvalid", err)
	}
}
