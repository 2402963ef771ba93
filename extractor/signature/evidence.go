// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"context"
	"encoding/json"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor/signature/policy"
)

// evidence is the input of an evaluation that accepted an image. The zero value accepts none.
type evidence struct {
	Manifest   []byte             `json:"manifest,omitempty"`
	Signatures []policy.Signature `json:"signatures,omitempty"`
}

// save stores the evidence for an image. The zero value, after a rejection, replaces the evidence of an acceptance.
func (v *Verifier) save(ctx context.Context, reference string, accepted evidence) {
	image, err := name.NewDigest(reference)
	if err != nil || v.Store == nil {
		return
	}
	data, err := json.Marshal(accepted)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to store the signatures of an image", "image", reference)
		return
	}
	v.Store.SaveSignatures(ctx, digest.Digest(image.DigestStr()), data)
}

// acceptsStored reports whether the policy accepts an image with the stored evidence.
func (v *Verifier) acceptsStored(ctx context.Context, p *policy.Policy, reference string) bool {
	image, err := name.NewDigest(reference)
	if err != nil || v.Store == nil {
		return false
	}
	data, found := v.Store.LoadSignatures(ctx, digest.Digest(image.DigestStr()))
	var stored evidence
	if !found || json.Unmarshal(data, &stored) != nil || len(stored.Signatures) == 0 {
		return false
	}
	in := policy.Image{Reference: reference, Manifest: stored.Manifest, Signatures: stored.Signatures, TempDir: v.TempDir}
	return p.Evaluate(ctx, in) == nil
}
