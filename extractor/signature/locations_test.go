// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package signature

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/capi-installer/capi-installer/test/registry"
)

// simpleSignature returns a simple signature of the image, as podman and skopeo make it with "gpg --sign".
func (f *fixture) simpleSignature(by *openpgp.Entity) []byte {
	f.Helper()
	statement := fmt.Sprintf(`{"critical": {"type": "atomic container signature", "image": {"docker-manifest-digest": %q}, "identity": {"docker-reference": %q}}, "optional": {}}`,
		digestOfImage(f.T, f.image), f.name())
	var signed bytes.Buffer
	w, err := openpgp.Sign(&signed, by, nil, nil)
	if err == nil {
		_, err = w.Write([]byte(statement))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		f.Fatal(err)
	}
	return signed.Bytes()
}

// gpgKey creates a key, and requires simple signatures by it.
func (f *fixture) gpgKey() *openpgp.Entity {
	f.Helper()
	entity, err := openpgp.NewEntity("release", "", "release@example.com", nil)
	if err != nil {
		f.Fatal(err)
	}
	var public bytes.Buffer
	if err := entity.Serialize(&public); err != nil {
		f.Fatal(err)
	}
	f.policy = f.parse(fmt.Sprintf(`{"default": [{"type": "signedBy", "keyType": "GPGKeys", "keyData": %q}]}`, base64.StdEncoding.EncodeToString(public.Bytes())))
	return entity
}

func (f *fixture) configure(files ...string) {
	f.Helper()
	f.LocationsDir = f.TempDir()
	for n, text := range files {
		if err := os.WriteFile(filepath.Join(f.LocationsDir, fmt.Sprintf("%d.yaml", n)), []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
	}
}

func TestVerifier_LookasideOverHTTP(t *testing.T) {
	f := newFixture(t)
	key := f.gpgKey()
	path := "/signatures/providers/aws@" + strings.Replace(string(digestOfImage(t, f.image)), ":", "=", 1) + "/signature-1"
	var signature []byte
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case status != http.StatusOK:
			w.WriteHeader(status)
		case r.URL.Path == path && signature != nil:
			_, _ = w.Write(signature)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	f.rejected("signature not found") // no lookaside is configured
	f.configure("docker:\n  " + f.Host() + ":\n    lookaside: " + server.URL + "/signatures\n    use-sigstore-attachments: false\n")
	f.undecided("503 Service Unavailable")
	status = http.StatusOK
	f.rejected("signature not found")
	signature = f.simpleSignature(key)
	f.accepted()
	f.gpgKey()
	f.rejected("Key not found")
	signature = []byte("<html>log in</html>")
	f.undecided("parsing signature " + server.URL + path)
	if err := f.Verify(t.Context(), f.reference); err == nil || strings.Contains(err.Error(), os.TempDir()) {
		t.Errorf("got %v, want an error without a temporary file", err)
	}
}

func TestVerifier_LookasideOfFiles(t *testing.T) {
	f := newFixture(t)
	key, dir := f.gpgKey(), f.TempDir()
	at := filepath.Join(dir, "providers", "aws@"+strings.Replace(string(digestOfImage(t, f.image)), ":", "=", 1))
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	other := newFixture(t)
	other.image, other.reference = registry.MustImage(t, registry.Layer{Txtar: "-- etc/motd --\nother\n"}), f.reference
	for n, signature := range [][]byte{other.simpleSignature(key), f.simpleSignature(key)} {
		if err := os.WriteFile(filepath.Join(at, fmt.Sprintf("signature-%d", n+1)), signature, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.configure("default-docker:\n  sigstore: file://" + dir + "\n")
	f.accepted()
}

func TestLocations_DisableAttachments(t *testing.T) {
	f := newFixture(t)
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.configure("default-docker: {use-sigstore-attachments: false}\n", "docker: {"+f.Host()+"/providers: {use-sigstore-attachments: true}}\n")
	f.accepted()
	f.configure("default-docker: {use-sigstore-attachments: true}\n", "docker: {"+f.Host()+"/providers: {use-sigstore-attachments: false}}\n")
	f.rejected("signature not found")
}

func TestLocations_Invalid(t *testing.T) {
	f := newFixture(t)
	for text, files := range map[string][]string{
		`"default-docker" defined both`: {"default-docker: {}\n", "default-docker: {}\n"},
		"0.yaml":                        {"docker: [\n"},
		"Unsupported scheme":            {"default-docker: {lookaside: 'ftp://example.com'}\n"},
		"invalid character":             {"default-docker: {lookaside: 'https://user:hunter2@exa mple.com'}\n"},
	} {
		f.configure(files...)
		f.undecided(text)
		if err := f.Verify(t.Context(), f.reference); strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v shows a password", err)
		}
	}
	f.LocationsDir = filepath.Join(f.TempDir(), "missing")
	f.rejected("signature not found")
}
