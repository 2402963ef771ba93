// SPDX-License-Identifier: Apache-2.0

package operand_test

import (
	"errors"
	"testing"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
)

// TestImageError_NamesTheReferenceOnce has an error of each source of an image.
func TestImageError_NamesTheReferenceOnce(t *testing.T) {
	const reference = "quay.io/example/capa@sha256:aa"
	err := &operand.ImageError{Name: "aws", Reference: reference, Err: errors.Join(
		&extractor.Error{Image: reference, Err: errors.New("getting the manifest from mirror.example.com: not found")},
		&extractor.Error{Image: reference, Layer: "sha256:bb", Err: errors.New("unexpected EOF")},
	)}
	want := "image aws (" + reference + "): cannot read its contents: getting the manifest from mirror.example.com: not found\nlayer sha256:bb: unexpected EOF"
	if err.Error() != want {
		t.Errorf("got %q, want %q", err.Error(), want)
	}
}
