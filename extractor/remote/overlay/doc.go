// SPDX-License-Identifier: Apache-2.0

// Package overlay computes the files that an image has at the roots of bundles, as if all of its layers were unpacked
// on top of each other. It works in memory and reads only the necessary layers.
//
// A Scanner reads a layer once and returns its Index, the few entries that concern bundles. An Overlay merges indexes
// from the top layer down, with the whiteouts, opaque whiteouts, hard links and replaced entries of the OCI image
// specification (layer.md), until no lower layer can change the result:
//
//	o := overlay.New(overlay.Limits{})
//	for _, layer := range slices.Backward(layers) {
//		index, _, err := overlay.Scanner{}.Scan(ctx, body, layer.Size)
//		…
//		err = o.Add(layer.Digest, index)
//		if o.Decided() {
//			break
//		}
//	}
//	files, err := o.Files()
//
// Entries that container runtimes treat differently, or that no unpacker should create, are errors if they are part of
// the result.
package overlay
