// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"slices"
)

// Image is an image whose signatures are evaluated.
type Image struct {
	// Reference is the payload reference. Scopes and identities are matched against it, independent of the source.
	Reference string
	// Manifest is the manifest of the image, verified; not an index.
	Manifest []byte
	// Signatures are the signatures of the image; they are untrusted.
	Signatures []Signature
	// TempDir is the directory for temporary files; "" means os.TempDir.
	TempDir string
}

// Signature is an untrusted signature: the bytes of a simple signature in a lookaside, or the result of
// NewSigstore.
type Signature []byte

// MediaTypeSigstore is the media type of the signature layers of a sigstore attachment.
const MediaTypeSigstore = "application/vnd.dev.cosign.simplesigning.v1+json"

// NewSigstore returns the signature in a layer of a sigstore attachment.
func NewSigstore(payload []byte, annotations map[string]string) (Signature, error) {
	// The storage form of go.podman.io/image, as in its dir transport.
	body, err := json.Marshal(struct {
		MediaType   string            `json:"mimeType"`
		Payload     []byte            `json:"payload"`
		Annotations map[string]string `json:"annotations"`
	}{MediaTypeSigstore, payload, annotations})
	return slices.Concat([]byte("\x00sigstore-json\n"), body), err
}

// RejectedError reports that a policy does not accept an image.
type RejectedError struct {
	// Scope is the scope of the policy that applies to the image.
	Scope string
	// Reason is the cause, such as a missing signature.
	Reason string
}

// Error implements error.
func (e *RejectedError) Error() string { return e.Reason }
