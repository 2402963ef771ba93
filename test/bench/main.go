// SPDX-License-Identifier: Apache-2.0

// Bench compares two ways to read the bundles of a release's images: with this
// project's extractor and with crane export, which reads whole images. Both run
// as processes of their own, against one registry on the loopback interface that
// counts, and waits for as long as a round trip takes.
//
//	go run ./test/bench
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == extractCommand {
		os.Exit(extract(os.Args[2], os.Args[3:]))
	}
	images := flag.Int("images", 20, "how many images")
	scale := flag.Int("scale", 1, "divide the images' sizes by this")
	flag.Parse()
	if err := run(*images, *scale); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// exportsAtOnce is the number of concurrent processes of crane: the number of large layers that the extractor reads at once.
const exportsAtOnce = 4

// bench is one run of all measurements.
type bench struct {
	dir, crane string
	registry   *server
}

func run(images, scale int) (err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{dir: dir, crane: filepath.Join(dir, "crane")}
	build := exec.Command("go", "build", "-o", b.crane, "github.com/google/go-containerregistry/cmd/crane")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building crane: %w: %s", err, output)
	}
	if b.registry, err = serve(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.registry.close()) }()
	release, err := newRelease(b.registry, images, scale)
	if err != nil {
		return err
	}
	fmt.Printf("%d images of %s in all; %d runs of crane at once; %d CPUs.\n", images, size(release.total), exportsAtOnce, runtime.NumCPU())
	fmt.Println("sent: bytes of bodies the registry sent; read: those that were taken, the rest was on its way when the reader left.")
	fmt.Printf(row, "RTT", "images", "reader", "sent", "read", "requests", "wall", "CPU", "peak memory")
	for _, roundTrip := range []time.Duration{0, 20 * time.Millisecond} {
		b.registry.roundTrip = roundTrip
		if err := b.measure(release); err != nil {
			return err
		}
	}
	return nil
}

// row is the format of a row of the table.
const row = "%5s  %-22s  %-20s  %10s  %10s  %8v  %9s  %9s  %11s\n"

// measure runs all cases at the registry's round trip time.
func (b *bench) measure(r *release) error {
	caches := filepath.Join(b.dir, b.registry.roundTrip.String())
	cache := func(name string) string { return filepath.Join(caches, name) }
	for _, c := range []struct {
		images     string
		references []string
		reader     string
		cache      string
	}{
		{"bundle in a last layer", r.packed, "crane export", ""},
		{"bundle in a last layer", r.packed, "extractor, cold", cache("packed")},
		{"bundle in a last layer", r.packed, "extractor, restarted", cache("packed")},
		{"three of them changed", r.changed, "extractor", cache("packed")},
		{"squashed, with a hint", r.hinted, "extractor, cold", cache("hinted")},
		{"squashed, no hint", r.squashed, "extractor, cold", cache("squashed")},
		{"squashed, no hint", r.squashed, "extractor, restarted", cache("squashed")},
		{"without a bundle", r.empty, "extractor, cold", cache("empty")},
	} {
		used, err := b.read(c.cache, c.references)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c.images, c.reader, err)
		}
		sent, requests := b.registry.reset()
		fmt.Printf(row, b.registry.roundTrip, c.images, c.reader, size(sent), size(min(used.read, sent)), requests,
			fmt.Sprintf("%.2f s", used.wall.Seconds()), fmt.Sprintf("%.2f s", used.cpu.Seconds()), size(used.peak))
	}
	return nil
}

// usage is the cost of reading.
type usage struct {
	wall, cpu time.Duration
	peak      int64 // bytes of the largest process
	read      int64 // bytes of bodies
}

// read reads the bundles with the extractor, or the images with crane if there is no cache.
func (b *bench) read(cache string, references []string) (usage, error) {
	start := time.Now()
	if cache == "" {
		used, err := b.exportAll(references)
		used.wall = time.Since(start)
		return used, err
	}
	own, err := os.Executable()
	if err != nil {
		return usage{}, err
	}
	cmd := exec.Command(own, append([]string{extractCommand, cache}, references...)...)
	output, used, err := finished(cmd)
	used.wall = time.Since(start)
	if err != nil {
		return used, err
	}
	var said report
	if err := json.Unmarshal(output, &said); err != nil {
		return used, fmt.Errorf("reading the output of the extractor: %w", err)
	}
	used.read = said.Read
	if said.Bundles != b.registry.bundles(references) {
		return used, fmt.Errorf("the extractor found %d bundles, not %d", said.Bundles, b.registry.bundles(references))
	}
	return used, nil
}

// exportAll runs crane export for each image, a few at once.
func (b *bench) exportAll(references []string) (all usage, err error) {
	slots := make(chan struct{}, exportsAtOnce)
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, reference := range references {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			_, one, runErr := finished(exec.Command(b.crane, "export", reference, os.DevNull))
			mu.Lock()
			defer mu.Unlock()
			all.cpu += one.cpu
			all.peak = max(all.peak, one.peak)
			err = errors.Join(err, runErr)
		})
	}
	group.Wait()
	all.read = 1 << 62 // crane reads complete bodies
	return all, err
}

// finished runs a process and returns its cost.
func finished(cmd *exec.Cmd) ([]byte, usage, error) {
	var errorText strings.Builder
	cmd.Stderr = &errorText
	var output bytes.Buffer
	cmd.Stdout = &output
	if err := cmd.Start(); err != nil {
		return nil, usage{}, err
	}
	ended, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watch(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	close(ended)
	used := usage{peak: <-peak}
	if err != nil {
		return nil, usage{}, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, errorText.String())
	}
	used.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return output.Bytes(), used, nil
}

// watch returns the peak of a process's memory, as Linux shows it while the
// process runs: its own figures afterwards include the memory of its parent.
func watch(pid int, ended <-chan struct{}) (peak int64) {
	every := time.NewTicker(2 * time.Millisecond)
	defer every.Stop()
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended just now
		if _, after, found := strings.Cut(string(status), "VmHWM:"); found {
			var kib int64
			if _, err := fmt.Sscan(after, &kib); err == nil {
				peak = max(peak, kib<<10)
			}
		}
		select {
		case <-ended:
			return peak
		case <-every.C:
		}
	}
}

// size writes a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
