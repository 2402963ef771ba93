// SPDX-License-Identifier: Apache-2.0

// Package signing makes keys, signatures of images and signature policies for tests.
package signing

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor/signature"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// NewKey returns a new key for signatures of images.
func NewKey() (*signature.Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, err
	}
	return signature.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil)
}

// Sign writes the signature of an image, by digest, to its repository.
func Sign(key *signature.Key, reference string) error {
	ref, err := name.NewDigest(reference)
	if err != nil {
		return err
	}
	image := digest.Digest(ref.DigestStr())
	attachment, err := key.Attach(nil, reference, image)
	if err != nil {
		return err
	}
	return remote.Write(ref.Context().Tag(signature.AttachmentTag(image)), attachment)
}

// Require replaces the signature policy in a file by one that requires signatures by a key for every image.
func Require(path string, key *signature.Key) error {
	public, err := key.PublicKey()
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`{"default": [{"type": "sigstoreSigned", "keyData": %q}]}`, base64.StdEncoding.EncodeToString(public))
	return fixture.ReplaceFile(path, text)
}
