// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/extractor/remote/overlay"
	"github.com/capi-installer/capi-installer/test/registry"
)

// program returns text that compresses to half of its size, like programs.
func program(size int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var out strings.Builder
	out.Grow(size)
	for out.Len() < size {
		fmt.Fprintf(&out, "%016x", random.Uint64())
	}
	return out.String()[:size]
}

// large returns an image of 100 MB: a base of many small files, the bundle, and a program in a layer above it.
func large(b *testing.B, bundleAbove bool) v1.Image {
	var base []registry.Entry
	small := program(5 << 10)
	for n := range 4000 {
		base = append(base, registry.File(fmt.Sprintf("usr/share/%d/%d/file", n%60, n), small))
	}
	layers := []registry.Layer{{Entries: base}, shipped(b, aws(manifests)), {Entries: []registry.Entry{registry.File("usr/bin/manager", program(80<<20))}}}
	if bundleAbove {
		layers[1], layers[2] = layers[2], layers[1]
	}
	return registry.MustImage(b, layers...)
}

func BenchmarkFetch100MB(b *testing.B) {
	for _, above := range []bool{false, true} {
		b.Run(fmt.Sprintf("bundle-on-top=%t", above), func(b *testing.B) {
			reg := registry.New(b, registry.Options{})
			reference := reg.MustPush(b, "providers/aws", large(b, above))
			c := client(b)
			b.SetBytes(100 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if bundles, err := c.Fetch(b.Context(), reference); err != nil || len(bundles) != 1 {
					b.Fatal(bundles, err)
				}
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	var entries []registry.Entry
	for n := range 50_000 {
		entries = append(entries, registry.File(fmt.Sprintf("usr/share/%d/%d/file", n%600, n), ""))
	}
	layer, err := registry.Layer{Entries: entries}.Tar()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (overlay.Scanner{}).Scan(b.Context(), bytes.NewReader(layer), int64(len(layer))); err != nil {
			b.Fatal(err)
		}
	}
}
