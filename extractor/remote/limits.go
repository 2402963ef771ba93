// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"fmt"
)

// Limits bound what one image may cost. A field that is zero has its default;
// none can be switched off. Sizes are in bytes.
type Limits struct {
	// Manifest is the size of the largest manifest or index; default 4 MiB.
	Manifest int64
	// Config is the size of the largest image configuration; default 8 MiB.
	Config int64
	// Layers is the number of layers; default 512.
	Layers int
	// Layer is the size of the largest layer as the registry holds it; default 4 GiB.
	Layer int64
	// Image is the size of all layers as the registry holds them; default 8 GiB.
	Image int64
	// Unpacked is the size of the largest layer decompressed; default 16 GiB.
	Unpacked int64
	// Ratio is how many times its own size a layer may become by decompression.
	// It is looked at only in layers that become larger than 64 MiB; default 200.
	Ratio int64
	// Entries is the number of archive entries in a layer; default 2,000,000.
	Entries int
	// Links is how much memory the symlinks of a layer may take; default 16 MiB.
	Links int64
	// Depth is the number of components of the longest path; default 128.
	Depth int
	// Files is the number of files and directories below the roots; default 1000.
	Files int
	// Total is the size of all files that are parts of bundles, in a layer and in an image; default 40 MiB.
	// How long one may be is extractor.Limit.
	Total int64
}

const (
	kib int64 = 1 << 10
	mib       = kib << 10
	gib       = mib << 10

	// ratioFloor is the decompressed size up to which Limits.Ratio is not looked at.
	ratioFloor = 64 * mib
)

// orDefaults returns the limits with the defaults filled in.
func (l Limits) orDefaults() Limits {
	return Limits{
		Manifest: cmp.Or(l.Manifest, 4*mib),
		Config:   cmp.Or(l.Config, 8*mib),
		Layers:   cmp.Or(l.Layers, 512),
		Layer:    cmp.Or(l.Layer, 4*gib),
		Image:    cmp.Or(l.Image, 8*gib),
		Unpacked: cmp.Or(l.Unpacked, 16*gib),
		Ratio:    cmp.Or(l.Ratio, 200),
		Entries:  cmp.Or(l.Entries, 2_000_000),
		Links:    cmp.Or(l.Links, 16*mib),
		Depth:    cmp.Or(l.Depth, 128),
		Files:    cmp.Or(l.Files, 1000),
		Total:    cmp.Or(l.Total, 40*mib),
	}
}

// LimitError says that an image is more than its Limits allow.
type LimitError struct {
	// What is what there is too much of, such as "layers".
	What string
	// Limit is the most that is allowed.
	Limit int64
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: more than the limit of %d", e.What, e.Limit)
}

// within returns a LimitError if n is more than limit.
func within[N int | int64](what string, n, limit N) error {
	if n <= limit {
		return nil
	}
	return &LimitError{What: what, Limit: int64(limit)}
}
