// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/manifest"
)

// FuzzUnsigned removes the signatures of manifests: the payload of an accepted one has the digest that containers/image computes.
func FuzzUnsigned(f *testing.F) {
	signed, err := manifest.AddDummyV2S1Signature([]byte(`{"schemaVersion": 1, "fsLayers": [{"blobSum": "sha256:a"}]}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signed)
	f.Add([]byte(`{"schemaVersion":1,"signatures":[{"protected":"eyJmb3JtYXRMZW5ndGgiOi0xLCJmb3JtYXRUYWlsIjoiIn0"}]}`)) // formatLength is -1
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !isSigned(raw) {
			return
		}
		payload := unsigned(raw)
		if payload == nil {
			return
		}
		want, err := manifest.Digest(raw)
		if got := digest.FromBytes(payload).String(); err != nil || got != want.String() {
			t.Errorf("the digest of the payload is %s, want %s, %v", got, want, err)
		}
	})
}

func TestUnsigned_RejectsMoreThanThePayload(t *testing.T) {
	signed, err := manifest.AddDummyV2S1Signature([]byte(`{"schemaVersion":1,"fsLayers":[{"blobSum":"a"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if unsigned(signed) == nil {
		t.Fatalf("rejected %s", signed)
	}
	for _, more := range []string{`"fsLayers":[{"blobSum":"b"}],`, `"FSLayers":[{"blobSum":"b"}],`, `"layers":[],`} {
		changed := strings.Replace(string(signed), `"signatures"`, more+`"signatures"`, 1)
		same, err := manifest.Digest(signed)
		if other, otherErr := manifest.Digest([]byte(changed)); err != nil || otherErr != nil || other != same {
			t.Fatalf("containers/image computes the digest %s, want %s: %v, %v", other, same, err, otherErr)
		}
		if payload := unsigned([]byte(changed)); payload != nil {
			t.Errorf("accepted %s", changed)
		}
	}
}
