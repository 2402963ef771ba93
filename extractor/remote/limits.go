// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"

	"github.com/capi-installer/capi-installer/extractor/remote/overlay"
)

// Limits bound the cost of one image. A zero field means its default; limits cannot
// be disabled. Sizes are in bytes. The error for an image that exceeds a limit is an
// extractor.ErrInvalid that wraps an *overlay.LimitError.
type Limits struct {
	// Manifest is the maximum size of a manifest or index; default 4 MiB.
	Manifest int64
	// Layers is the maximum number of layers; default 512.
	Layers int
	// Layer is the maximum compressed size of a layer; default 4 GiB.
	Layer int64
	// Image is the maximum compressed size of all layers; default 8 GiB.
	Image int64
	// Contents are the limits of the contents of layers.
	Contents overlay.Limits
}

const (
	mib int64 = 1 << 20
	gib       = mib << 10
)

// withDefaults returns the limits with the defaults filled in.
func (l Limits) withDefaults() Limits {
	return Limits{
		Manifest: cmp.Or(l.Manifest, 4*mib),
		Layers:   cmp.Or(l.Layers, 512),
		Layer:    cmp.Or(l.Layer, 4*gib),
		Image:    cmp.Or(l.Image, 8*gib),
		Contents: l.Contents.WithDefaults(),
	}
}
