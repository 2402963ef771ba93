// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
)

// Limits of the signatures of an image at one source; the same as in go.podman.io/image.
const (
	maxSignatures   = 128
	maxSignature    = 4 << 20 // bytes
	maxAttachment   = 4 << 20 // bytes of the manifest
	maxAllSignature = 16 << 20
)

// AttachmentTag returns the tag that cosign, podman and skopeo give the sigstore signatures of an image in its
// repository: sha256-<hex>.sig.
func AttachmentTag(manifest digest.Digest) string {
	return strings.ReplaceAll(manifest.String(), ":", "-") + ".sig"
}

// readAttachment returns the sigstore signatures of an image from its only source; none if the source has no such tag.
func readAttachment(ctx context.Context, image *fetch.Image, manifest digest.Digest) ([]policy.Signature, error) {
	raw, mediaType, err := image.ManifestOfTag(ctx, "signatures", AttachmentTag(manifest), maxAttachment)
	if fetch.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if mediaType != types.OCIManifestSchema1 {
		return nil, &policy.RejectedError{Reason: fmt.Sprintf("the tag %s has the media type %q, want %s: sign the image again with \"capi-manifests sign\" or cosign", AttachmentTag(manifest), mediaType, types.OCIManifestSchema1)}
	}
	layers, err := signatureLayers(raw)
	if err != nil {
		return nil, err
	}
	var signatures []policy.Signature
	for _, layer := range layers {
		signature, err := readLayer(ctx, image, layer)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, signature)
	}
	return signatures, nil
}

// bundleType is the prefix of the media types of sigstore bundles, the default format of cosign 3.
const bundleType = "application/vnd.dev.sigstore.bundle"

// hasBundle reports whether an image has a signature in the bundle format at its only source. Such signatures are
// referrers of the image. Errors count as none, because the answer is only for a message.
func hasBundle(ctx context.Context, image *fetch.Image, manifest digest.Digest) bool {
	raw, err := image.Referrers(ctx, manifest.String(), maxAttachment)
	if err != nil {
		return false
	}
	var referrers struct {
		Manifests []struct {
			ArtifactType string `json:"artifactType"`
		} `json:"manifests"`
	}
	if json.Unmarshal(raw, &referrers) != nil {
		return false
	}
	for _, entry := range referrers.Manifests {
		if strings.HasPrefix(entry.ArtifactType, bundleType) {
			return true
		}
	}
	return false
}

// signatureLayers returns the layers of an attachment that are signatures; others are attestations.
func signatureLayers(raw []byte) ([]v1.Descriptor, error) {
	var manifest v1.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return nil, fmt.Errorf("parsing the manifest of the signatures: %w", err)
	}
	var layers []v1.Descriptor
	total := int64(0)
	for _, layer := range manifest.Layers {
		if layer.MediaType != policy.MediaTypeSigstore {
			continue
		}
		total += layer.Size
		if layer.Size < 0 || layer.Size > maxSignature || total > maxAllSignature || len(layers) == maxSignatures || layer.Digest.Algorithm != "sha256" {
			return nil, fmt.Errorf("invalid manifest of the signatures: want at most %d signatures of at most %d bytes, with valid digests", maxSignatures, maxSignature)
		}
		layer.URLs = nil // the manifest is unverified: it must not name hosts
		layers = append(layers, layer)
	}
	return layers, nil
}

func readLayer(ctx context.Context, image *fetch.Image, layer v1.Descriptor) (policy.Signature, error) {
	var payload []byte
	err := image.Blob(ctx, "signature", layer, maxSignature, func(body io.Reader) (err error) {
		payload, err = io.ReadAll(body)
		return err
	})
	if err != nil {
		return nil, err
	}
	return policy.NewSigstore(payload, layer.Annotations)
}
