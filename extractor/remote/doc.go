// SPDX-License-Identifier: Apache-2.0

// Package remote gets bundles out of images: from registries by digest, and
// from images that are at hand. No byte is parsed before its size and its
// digest are those of the reference, layers are laid upon each other exactly as
// an unpacker would, in memory, and nothing is ever written under a name that
// an image chose.
//
//	bundles, err := (&remote.Registry{}).Fetch(ctx, "quay.io/example/provider@sha256:…")
//
// What a hostile or broken image may cost is bounded by Limits. What is wrong
// with an image is an extractor.ErrInvalid; every other error is about getting
// its bytes.
package remote
