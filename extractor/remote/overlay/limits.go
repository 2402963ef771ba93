// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"cmp"
	"fmt"
)

// Limits bound the cost of one layer and of all layers of an image together. A zero field has its default; no limit can
// be disabled. Sizes are in bytes.
type Limits struct {
	// Unpacked is the maximum decompressed size of a layer; default 16 GiB.
	Unpacked int64
	// Ratio is the maximum ratio of the decompressed to the compressed size of a layer. It applies to layers with a
	// decompressed size above 64 MiB; default 200.
	Ratio int64
	// Entries is the maximum number of archive entries in a layer; default 2,000,000.
	Entries int
	// Links is the maximum memory for the symlinks of a layer; default 16 MiB.
	Links int64
	// LinkSteps is the maximum number of components of symlink targets that are followed to resolve the paths of a
	// layer's entries; default 4,000,000.
	LinkSteps int
	// Depth is the maximum number of components of a path; default 128.
	Depth int
	// Files is the maximum number of files and directories below the roots; default 1000.
	Files int
	// Total is the maximum size of all files of bundles, in a layer and in an image; default 40 MiB. extractor.Limit is
	// the limit of one file.
	Total int64
}

const (
	kib int64 = 1 << 10
	mib       = kib << 10
	gib       = mib << 10

	// ratioFloor is the largest decompressed size that Limits.Ratio does not limit.
	ratioFloor = 64 * mib
)

// WithDefaults returns the limits with defaults for zero fields.
func (l Limits) WithDefaults() Limits {
	return Limits{
		Unpacked:  cmp.Or(l.Unpacked, 16*gib),
		Ratio:     cmp.Or(l.Ratio, 200),
		Entries:   cmp.Or(l.Entries, 2_000_000),
		Links:     cmp.Or(l.Links, 16*mib),
		LinkSteps: cmp.Or(l.LinkSteps, 4_000_000),
		Depth:     cmp.Or(l.Depth, 128),
		Files:     cmp.Or(l.Files, 1000),
		Total:     cmp.Or(l.Total, 40*mib),
	}
}

// LimitError reports that an image exceeds a limit.
type LimitError struct {
	// The exceeded quantity, such as "layers".
	What string
	// Limit is the maximum.
	Limit int64
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: more than the limit of %d", e.What, e.Limit)
}

// CheckLimit returns a *LimitError if n is more than limit.
func CheckLimit[N int | int64](what string, n, limit N) error {
	if n <= limit {
		return nil
	}
	return &LimitError{What: what, Limit: int64(limit)}
}
