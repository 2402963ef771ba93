// SPDX-License-Identifier: Apache-2.0

// Package ocilayout reads and writes OCI image layouts, as directories and as
// tar archives (https://github.com/opencontainers/image-spec/blob/main/image-layout.md).
// A layout here holds one entry: an image or an image index.
//
//	err := ocilayout.Write(ctx, "out/image", image, "quay.io/example/provider:v1")
//	entry, err := ocilayout.Read("out/image") // a v1.Image or a v1.ImageIndex
//
// A layout from another party is untrusted: nothing of an archive is unpacked, only regular
// files are opened, sizes are bounded, and manifests and configs are verified against their
// digests. Layers are not verified here; each of their consumers (remote.FromImage, Write,
// a registry that receives a push) hashes them anyway.
package ocilayout
