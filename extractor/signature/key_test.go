// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

// privateKeys returns keys in every form.
func privateKeys(t *testing.T) map[string][]byte {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	pkcs8 := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	sealed, err := encrypted.Encrypt(pkcs8(ec), []byte("secret"))
	sec1, sec1Err := x509.MarshalECPrivateKey(ec)
	return map[string][]byte{
		"ECDSA":             encode("PRIVATE KEY", pkcs8(ec), nil),
		"ECDSA of openssl":  encode("EC PRIVATE KEY", sec1, sec1Err),
		"ECDSA of cosign":   encode("ENCRYPTED COSIGN PRIVATE KEY", sealed, err),
		"ECDSA of sigstore": encode("ENCRYPTED SIGSTORE PRIVATE KEY", sealed, err),
		"RSA":               encode("PRIVATE KEY", pkcs8(rsaKey), nil),
		"RSA of openssl":    encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil),
		"Ed25519":           encode("PRIVATE KEY", pkcs8(ed), nil),
	}
}

func TestKey_SignsWithEveryKind(t *testing.T) {
	image := digest.FromString("image")
	for name, data := range privateKeys(t) {
		key, err := ParseKey(data, []byte("secret"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		signed, err := key.Attach(nil, "quay.io/example/provider:v1", image)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := key.Attach(signed, "quay.io/example/provider:v1", image)
		if err != nil || again != signed {
			t.Errorf("%s: signing twice changes the attachment, %v", name, err)
		}
		other, err := key.Attach(signed, "quay.io/example/other:v1", image)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if manifest, err := other.Manifest(); err != nil || len(manifest.Layers) != 2 {
			t.Errorf("%s: attachment with two signatures: %v, %v", name, manifest, err)
		}
	}
}

func TestParseKey_DoesNotShowKeys(t *testing.T) {
	for name, data := range privateKeys(t) {
		if !strings.Contains(name, "cosign") {
			continue
		}
		if _, err := ParseKey(data, []byte("wrong")); !errors.Is(err, ErrPassphrase) {
			t.Errorf("%s: got %v, want ErrPassphrase", name, err)
		}
		key, err := ParseKey(data, []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(format, key); text != "*ecdsa.PublicKey" {
				t.Errorf("%s shows %s", format, text)
			}
		}
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("hunter2")})
	for _, data := range [][]byte{[]byte("hunter2"), block} {
		if _, err := ParseKey(data, nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
	}
}
