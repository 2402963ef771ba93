// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"context"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/internal/ocilayout"
)

// WriteLayout writes image, a v1.Image or a v1.ImageIndex, as an OCI image layout to the directory dir; see
// ocilayout.Write. Errors are of type *bundle.WriteError.
func WriteLayout(ctx context.Context, dir string, image mutate.Appendable, reference string) error {
	if err := ocilayout.Write(ctx, dir, image, reference); err != nil {
		return &bundle.WriteError{Path: dir, Err: err}
	}
	return nil
}

// WriteArchive writes image as a tar archive of an OCI image layout; see ocilayout.WriteArchive. Errors
// are of type *bundle.WriteError.
func WriteArchive(ctx context.Context, file string, image mutate.Appendable, reference string) error {
	if err := ocilayout.WriteArchive(ctx, file, image, reference); err != nil {
		return &bundle.WriteError{Path: file, Err: err}
	}
	return nil
}
