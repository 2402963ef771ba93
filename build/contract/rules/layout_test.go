// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
)

func TestUnreadable_IgnoresOtherErrors(t *testing.T) {
	wrong := &extractor.InvalidError{Err: errors.New("a link leads out")}
	for name, test := range map[string]struct {
		err  error
		want []string
	}{
		"a layer":         {&extractor.Error{Image: "i", Layer: "sha256:1", Err: wrong}, []string{"layer sha256:1: a link leads out"}},
		"two":             {fmt.Errorf("reading: %w", errors.Join(wrong, &extractor.Error{File: "f", Err: wrong})), []string{"a link leads out", "a link leads out"}},
		"one of two":      {errors.Join(wrong, errors.New("connection refused")), nil},
		"no bundle's own": {errors.New("connection refused"), nil},
		"nothing":         {nil, nil},
	} {
		var got []string
		findings, all := Unreadable(test.err)
		for _, f := range findings {
			if f.Rule != "layout/readable" || f.Severity != contract.Error || f.Fix == "" {
				t.Errorf("incomplete finding: %+v", f)
			}
			got = append(got, f.Message)
		}
		if diff := cmp.Diff(test.want, got); diff != "" || all != (test.want != nil) {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
