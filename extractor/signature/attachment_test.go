// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"encoding/json"
	"fmt"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/extractor/signature/policy"
)

func TestSignatureLayers_Limits(t *testing.T) {
	layers := func(count int, change func(*v1.Descriptor)) (all []v1.Descriptor) {
		for range count {
			layer := v1.Descriptor{MediaType: policy.MediaTypeSigstore, Size: 100, Digest: v1.Hash{Algorithm: "sha256", Hex: "a"}}
			if change != nil {
				change(&layer)
			}
			all = append(all, layer)
		}
		return all
	}
	sized := func(size int64) func(*v1.Descriptor) { return func(d *v1.Descriptor) { d.Size = size } }
	attestation := func(d *v1.Descriptor) { d.MediaType = types.MediaType("application/vnd.dsse.envelope.v1+json") }
	for name, test := range map[string]struct {
		layers []v1.Descriptor
		want   int // -1 is an error
	}{
		"none":                          {nil, 0},
		"one":                           {layers(1, nil), 1},
		"an attestation":                {append(layers(1, nil), layers(1, attestation)...), 1},
		"a large attestation":           {layers(1, func(d *v1.Descriptor) { attestation(d); d.Size = 1 << 30 }), 0},
		"as many as allowed":            {layers(maxSignatures, nil), maxSignatures},
		"too many":                      {layers(maxSignatures+1, nil), -1},
		"as large as allowed":           {layers(1, sized(maxSignature)), 1},
		"too large":                     {layers(1, sized(maxSignature+1)), -1},
		"all as large as allowed":       {layers(maxAllSignature/maxSignature, sized(maxSignature)), maxAllSignature / maxSignature},
		"all too large":                 {layers(maxAllSignature/maxSignature+1, sized(maxSignature)), -1},
		"a negative size":               {layers(1, sized(-1)), -1},
		"a digest of another algorithm": {layers(1, func(d *v1.Descriptor) { d.Digest.Algorithm = "md5" }), -1},
	} {
		type descriptor struct {
			MediaType types.MediaType `json:"mediaType"`
			Size      int64           `json:"size"`
			Digest    string          `json:"digest"`
		}
		var encoded []descriptor
		for _, layer := range test.layers {
			hash := map[string]string{"sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "md5": "d41d8cd98f00b204e9800998ecf8427e"}[layer.Digest.Algorithm]
			encoded = append(encoded, descriptor{layer.MediaType, layer.Size, layer.Digest.Algorithm + ":" + hash})
		}
		raw, err := json.Marshal(map[string]any{"schemaVersion": 2, "layers": encoded})
		if err != nil {
			t.Fatal(err)
		}
		got, err := signatureLayers(raw)
		if (err != nil) != (test.want < 0) || err == nil && len(got) != test.want {
			t.Errorf("%s: got %d layers, %v, want %d", name, len(got), err, test.want)
		}
	}
	withURL := fmt.Appendf(nil, `{"layers": [{"mediaType": %q, "size": 1, "digest": "sha256:%064d", "urls": ["https://other.example.com/x"]}]}`, policy.MediaTypeSigstore, 1)
	if got, err := signatureLayers(withURL); err != nil || len(got) != 1 || got[0].URLs != nil {
		t.Errorf("a layer with a URL: got %v, %v, want no URL", got, err)
	}
	if _, err := signatureLayers([]byte("<html>")); err == nil {
		t.Error("a page: no error")
	}
}
