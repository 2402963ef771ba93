// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/capi-installer/capi-installer/internal/parallel"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// extraction measures two ways to read the bundles of a release's images: with the extractor, and with crane export (it
// reads whole images). Both run as processes of their own, against one registry on the loopback interface that counts, and
// waits for as long as a round trip takes.
func extraction(ctx context.Context, r *run) (err error) {
	b := &extractBench{run: r, crane: filepath.Join(r.dir, "crane"), extractor: filepath.Join(r.dir, "extractor")}
	err = errors.Join(fixture.Build(ctx, b.crane, "", "github.com/google/go-containerregistry/cmd/crane"),
		fixture.Build(ctx, b.extractor, "", "github.com/capi-installer/capi-installer/test/bench/extractor"))
	if err != nil {
		return err
	}
	if b.registry, err = serve(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.registry.close()) }()
	if b.release, err = newRelease(b.registry, r.images, r.scale); err != nil {
		return err
	}
	for _, roundTrip := range r.roundTrips {
		b.registry.roundTrip = roundTrip
		if err := b.measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// exportsAtOnce is the number of concurrent processes of crane: the number of large layers that the extractor reads at once.
const exportsAtOnce = 4

// extractBench is one run of all measurements.
type extractBench struct {
	*run
	crane, extractor string // the programs
	registry         *server
	release          *release
}

// measure runs all cases at the registry's round trip time.
func (b *extractBench) measure(ctx context.Context) error {
	caches := filepath.Join(b.dir, "extract-"+b.registry.roundTrip.String())
	var crane cost
	for _, c := range []struct {
		id         string
		references []string
		cache      string
		crane      bool // is measured before, and is the peer of this row and of those that follow
		alone      bool // has no peer
	}{
		{"extract-packed", b.release.packed, "packed", true, false},
		{"extract-restarted", b.release.packed, "packed", false, false},
		{"extract-changed", b.release.changed, "packed", false, false},
		{"extract-squashed", b.release.squashed, "squashed", true, false},
		{"extract-squashed-restarted", b.release.squashed, "squashed", false, false},
		{"extract-empty", b.release.empty, "empty", false, true},
	} {
		progress("%s at %s", c.id, b.registry.roundTrip)
		if c.crane {
			var err error
			if crane, err = b.exportAll(ctx, c.references); err != nil {
				return err
			}
		}
		ours, err := b.extract(ctx, filepath.Join(caches, c.cache), c.references)
		if err != nil {
			return fmt.Errorf("%s: %w", c.id, err)
		}
		row := row{ID: c.id, RoundTrip: b.registry.roundTrip.Milliseconds(), Workload: fmt.Sprintf("%d images, %s", len(c.references), size(b.release.total)), Ours: ours}
		if !c.alone {
			row.Peers = []cost{crane}
		}
		if err := b.add(row); err != nil {
			return err
		}
	}
	return nil
}

// extract reads the bundles with the extractor.
func (b *extractBench) extract(ctx context.Context, cache string, references []string) (cost, error) {
	b.registry.reset()
	output, used, err := finish(exec.CommandContext(ctx, b.extractor, append([]string{cache}, references...)...))
	if err != nil {
		return used, err
	}
	var found struct {
		Bundles int
		Read    int64
	}
	if err := json.Unmarshal(output, &found); err != nil {
		return used, fmt.Errorf("reading the output of the extractor: %w", err)
	}
	if found.Bundles != b.registry.bundles(references) {
		return used, fmt.Errorf("the extractor found %d bundles, not %d", found.Bundles, b.registry.bundles(references))
	}
	_, requests := b.registry.reset()
	used.Program, used.Requests, used.Bytes = "extractor", int(requests), found.Read
	return used, nil
}

// exported is the result of one crane export.
type exported struct {
	cost
	err error
}

// exportAll runs crane export for each image, a few at once.
func (b *extractBench) exportAll(ctx context.Context, references []string) (all cost, err error) {
	b.registry.reset()
	start := time.Now()
	for _, one := range parallel.MapLimit(references, exportsAtOnce, func(reference string) (out exported) {
		_, out.cost, out.err = finish(exec.CommandContext(ctx, b.crane, "export", reference, os.DevNull))
		return out
	}) {
		all.CPU, all.Memory, err = all.CPU+one.CPU, max(all.Memory, one.Memory), errors.Join(err, one.err)
	}
	sent, requests := b.registry.reset()
	all.Program, all.Seconds, all.Requests, all.Bytes = "crane export", time.Since(start).Seconds(), int(requests), sent
	return all, err
}
