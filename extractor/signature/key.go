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
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

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

// sign signs a payload with SHA-256, Ed25519 without a hash, as sigstore does.
func (k *Key) sign(payload []byte) ([]byte, error) {
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
