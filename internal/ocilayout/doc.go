// SPDX-License-Identifier: Apache-2.0

// Package ocilayout reads and writes OCI image layouts, as directories and as tar
// archives (https://github.com/opencontainers/image-spec/blob/main/image-layout.md). A
// layout must have one entry: an image or an image index.
//
//	err := ocilayout.Write(ctx, "out/image", image, "quay.io/example/provider:v1")
//	entry, err := ocilayout.Read("out/image") // a v1.Image or a v1.ImageIndex
//
// Layouts are untrusted input: archives are not unpacked, only regular files are opened,
// sizes are limited, and manifests and configs are verified against their digests. Layers
// are not verified here, because every consumer (remote.FromImage, Write, the registry
// during a push) computes their digests.
package ocilayout
