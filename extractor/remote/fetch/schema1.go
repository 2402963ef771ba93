// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"encoding/json"
	"reflect"

	"github.com/containers/libtrust"
	"go.podman.io/image/v5/manifest"
)

// isSigned reports whether a manifest of schema 1 contains signatures.
func isSigned(raw []byte) bool {
	return manifest.GuessMIMEType(raw) == manifest.DockerV2Schema1SignedMediaType
}

// unsigned returns the payload of a signed manifest: the manifest without its signatures. The digest of a signed manifest is
// the digest of its payload. It returns nil if the signatures are malformed, or if the manifest has more than its payload and
// the signatures: the digest does not cover the rest, and a reader of the whole manifest could see other layers.
//
// The signatures are not verified. Their keys are unknown, and the digest determines the payload.
func unsigned(raw []byte) (payload []byte) {
	defer func() {
		if recover() != nil { // libtrust panics if a signature states a negative length
			payload = nil
		}
	}()
	signed, err := libtrust.ParsePrettySignature(raw, signaturesKey)
	if err != nil {
		return nil
	}
	payload, err = signed.Payload()
	if err != nil || !sameFields(raw, payload) {
		return nil
	}
	return payload
}

const signaturesKey = "signatures"

// sameFields reports whether a signed manifest has the fields of its payload, and the signatures.
func sameFields(raw, payload []byte) bool {
	var all, verified map[string]any
	if json.Unmarshal(raw, &all) != nil || json.Unmarshal(payload, &verified) != nil {
		return false
	}
	delete(all, signaturesKey)
	return reflect.DeepEqual(all, verified)
}
