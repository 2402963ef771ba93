// SPDX-License-Identifier: Apache-2.0

//go:build !containers_image_openpgp

package policy

import (
	"errors"
	"os"
	"testing"
)

func TestPolicy_FailsClosedWithoutTheBuildTag(t *testing.T) {
	if os.Getenv("MAKELEVEL") != "" {
		t.Error("make runs the tests without the build tag containers_image_openpgp: the tests of signature policies are skipped")
	}
	if _, err := Parse("policy.json", []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
	if err := (&Policy{}).Evaluate(t.Context(), nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
}
