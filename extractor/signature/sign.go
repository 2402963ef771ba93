// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"

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
	signed, err := k.Sign(data)
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

// Key is a private key that signs images. It prints as its algorithm, never as the key.
type Key struct{ signer crypto.Signer }

// ErrPassphrase means that an encrypted key cannot be decrypted with the passphrase.
var ErrPassphrase = errors.New("the passphrase does not decrypt the private key")

// ParseKey parses a private key in PEM: ECDSA, RSA or Ed25519, as PKCS #8 or in the older forms of openssl, or
// encrypted as "cosign generate-key-pair" and "skopeo generate-sigstore-key" write it. Errors do not quote the key.
func ParseKey(data, passphrase []byte) (*Key, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("invalid private key: not in PEM format")
	}
	parsed, err := parseBlock(block, passphrase)
	if errors.Is(err, ErrPassphrase) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("invalid private key: the content of %s cannot be parsed", block.Type)
	}
	switch parsed.(type) {
	case *ecdsa.PrivateKey, *rsa.PrivateKey, ed25519.PrivateKey:
		return &Key{parsed.(crypto.Signer)}, nil //nolint:forcetypeassert // all three are signers
	default:
		return nil, fmt.Errorf("invalid private key: %T is neither ECDSA, RSA nor Ed25519", parsed)
	}
}

func parseBlock(block *pem.Block, passphrase []byte) (any, error) {
	switch block.Type {
	case "ENCRYPTED COSIGN PRIVATE KEY", "ENCRYPTED SIGSTORE PRIVATE KEY":
		der, err := encrypted.Decrypt(block.Bytes, passphrase)
		if err != nil {
			return nil, ErrPassphrase
		}
		return x509.ParsePKCS8PrivateKey(der)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	}
}

// String implements fmt.Stringer.
func (k *Key) String() string { return fmt.Sprintf("%T", k.signer.Public()) }

// GoString implements fmt.GoStringer.
func (k *Key) GoString() string { return k.String() }

// PublicKey returns the public key in PEM, as in policies.
func (k *Key) PublicKey() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(k.signer.Public())
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// Sign signs a payload with SHA-256, Ed25519 without a hash, as sigstore does.
func (k *Key) Sign(payload []byte) ([]byte, error) {
	if _, ok := k.signer.(ed25519.PrivateKey); ok {
		return k.signer.Sign(rand.Reader, payload, crypto.Hash(0))
	}
	sum := sha256.Sum256(payload)
	return k.signer.Sign(rand.Reader, sum[:], crypto.SHA256)
}

// verifies reports whether this key made a signature of a payload.
func (k *Key) verifies(payload, signature []byte) bool {
	sum := sha256.Sum256(payload)
	switch public := k.signer.Public().(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(public, sum[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], signature) == nil
	case ed25519.PublicKey:
		return ed25519.Verify(public, payload, signature)
	default:
		return false
	}
}
