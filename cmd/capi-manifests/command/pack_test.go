// SPDX-License-Identifier: Apache-2.0

package command

import (
	"testing"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/publish"
	"github.com/capi-installer/capi-installer/extractor"
)

func TestPackFlags_RefName(t *testing.T) {
	packed := &publish.Packed{Metadata: extractor.Metadata{ProviderName: "a", ProviderVersion: "v1"}}
	for push, want := range map[string]string{"": "a:v1", "quay.io/example/a:v2": "quay.io/example/a:v2"} {
		if got := (&packFlags{push: push}).refName(packed); got != want {
			t.Errorf("--push %q: got %q, want %q", push, got, want)
		}
	}
}
