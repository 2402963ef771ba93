// SPDX-License-Identifier: Apache-2.0

// Package remote reads bundles from images in registries, by digest, and from local images. No byte is
// used before its size and digest are verified. The result is the same as unpacking all layers, but is
// computed in memory (package overlay): no file is written under a name from an image, and only the
// necessary layers are read. README.md has a diagram.
//
//	bundles, err := (&remote.Registry{}).Fetch(ctx, "quay.io/example/provider@sha256:…")
//
// Limits bound the cost of hostile or corrupt images. The error for an invalid
// image is an extractor.ErrInvalid; every other error is retryable.
package remote
