// SPDX-License-Identifier: Apache-2.0

// Package remote reads bundles from images: from registries by digest, and
// from local images. No byte is used before its size and digest are verified. The result
// is exactly that of unpacking all layers, but is computed in memory (package overlay): nothing is
// written under a name from an image, and no more layers are read than needed. README.md has a picture.
//
//	bundles, err := (&remote.Registry{}).Fetch(ctx, "quay.io/example/provider@sha256:…")
//
// Limits bound the cost of a hostile or damaged image. An invalid image
// is an extractor.ErrInvalid; every other error is a failure to read its bytes.
package remote
