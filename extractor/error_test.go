// SPDX-License-Identifier: Apache-2.0

package extractor_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/capi-installer/capi-installer/extractor"
)

func TestError_NamesAllFields(t *testing.T) {
	for _, test := range []struct {
		err  extractor.Error
		want string
	}{
		{extractor.Error{Image: "i", Layer: "l", File: "f", Err: io.EOF}, "image i, layer l, file f: EOF"},
		{extractor.Error{Image: "i", Err: io.EOF}, "image i: EOF"},
		{extractor.Error{File: "f", Err: io.EOF}, "file f: EOF"},
		{extractor.Error{Err: io.EOF}, "EOF"},
		{extractor.Error{Image: "i"}, "image i: unknown error"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got %q, not %q", got, test.want)
		}
	}
}

func TestErrInvalid_ExcludesTransportErrors(t *testing.T) {
	wrong := fmt.Errorf("reading: %w", &extractor.Error{Image: "i", Err: &extractor.InvalidError{Err: io.EOF}})
	failed := fmt.Errorf("reading: %w", &extractor.Error{Image: "i", Err: io.EOF})
	if !errors.Is(wrong, extractor.ErrInvalid) || errors.Is(failed, extractor.ErrInvalid) {
		t.Error("ErrInvalid does not tell them apart")
	}
	for _, err := range []error{wrong, failed} {
		if !errors.Is(err, io.EOF) || err.Error() != "reading: image i: EOF" {
			t.Errorf("%v does not wrap its cause", err)
		}
	}
}
