// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor/signature/policy"
)

// AnnotationSignature is the annotation of a layer of an attachment with the base64-encoded signature of the layer.
const AnnotationSignature = "dev.cosignproject.cosign/signature"

// payload is the signed statement, the name of the image with a digest. See
// https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md.
type payload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest digest.Digest `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

// Attach adds a signature to the attachment of an image, stored under AttachmentTag. before is the existing
// attachment, or nil. It is returned unchanged if it has a signature of the same statement by the same key.
//
// identity is the name of the image in the signature, such as "quay.io/example/provider:v1.2.3", and manifest the
// digest of its manifest or index.
func (k *Key) Attach(before v1.Image, identity string, manifest digest.Digest) (v1.Image, error) {
	statement := payload{}
	statement.Critical.Identity.Reference = identity
	statement.Critical.Image.Digest = manifest
	statement.Critical.Type = "cosign container image signature"
	data, err := json.Marshal(statement)
	if err != nil {
		return nil, err
	}
	if before == nil {
		before = mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	}
	if signed, err := k.hasSigned(before, data); err != nil || signed {
		return before, err
	}
	signed, err := k.sign(data)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return mutate.Append(before, mutate.Addendum{
		Layer:       static.NewLayer(data, policy.MediaTypeSigstore),
		Annotations: map[string]string{AnnotationSignature: base64.StdEncoding.EncodeToString(signed)},
	})
}

// hasSigned reports whether an attachment has a signature of a statement by the key.
func (k *Key) hasSigned(attachment v1.Image, statement []byte) (bool, error) {
	manifest, err := attachment.Manifest()
	if err != nil {
		return false, fmt.Errorf("reading the present signatures: %w", err)
	}
	for _, layer := range manifest.Layers {
		if layer.Digest.String() != digest.FromBytes(statement).String() {
			continue
		}
		signed, err := base64.StdEncoding.DecodeString(layer.Annotations[AnnotationSignature])
		if err == nil && k.verifies(statement, signed) {
			return true, nil
		}
	}
	return false, nil
}
