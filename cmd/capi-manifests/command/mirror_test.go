// SPDX-License-Identifier: Apache-2.0

package command

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capi-installer/capi-installer/test/registry"
)

// TestMirror_ByWayOfADirectory copies an index with images of both formats, an attachment and a referrer, with their digests.
func TestMirror_ByWayOfADirectory(t *testing.T) {
	own, mirror := registry.New(t, registry.Options{}), registry.New(t, registry.Options{})
	oci, err := registry.Format{}.Image(registry.Layer{Txtar: "-- a --\n"})
	if err != nil {
		t.Fatal(err)
	}
	docker, err := registry.Format{Docker: true}.Image(registry.Layer{Txtar: "-- b --\n", Compression: registry.None})
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []v1.Image{oci, docker} {
		reference := own.MustPush(t, "release/aws", image)
		ref, err := name.NewDigest(reference)
		if err != nil {
			t.Fatal(err)
		}
		tag := strings.ReplaceAll(ref.DigestStr(), ":", "-") + ".sig"
		if _, err := own.PushTag("release/aws", tag, registry.MustImage(t, registry.Layer{Txtar: "-- signature --\n"})); err != nil {
			t.Fatal(err)
		}
		size, err := image.Size()
		if err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		sbom := mutate.Subject(registry.MustImage(t, registry.Layer{Txtar: "-- sbom --\n"}), v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest, Size: size}).(v1.Image)
		referrer := own.MustPush(t, "release/aws", sbom)
		dir := filepath.Join(t.TempDir(), "release")
		for range 2 { // the second copy finds all content, and replaces what a full disk has left of the index
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte(`{"schemaVersion":2,"mani`), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := (&mirrorFlags{toDir: dir}).copyAll(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		}
		entries, err := inLayout(dir)
		if err != nil || len(entries) < 3 {
			t.Fatalf("entries %v, %v", entries, err)
		}
		for _, entry := range entries {
			if err := (&mirrorFlags{fromDir: dir, to: mirror.Host() + "/copies"}).copyAll(t.Context(), entry); err != nil {
				t.Fatal(err)
			}
		}
		for _, manifest := range []string{ref.DigestStr(), tag, referrer[strings.Index(referrer, "@")+1:]} {
			response, err := http.Get("http://" + mirror.Host() + "/v2/copies/release/aws/manifests/" + manifest) //nolint:noctx // it is a test
			if err != nil {
				t.Fatal(err)
			}
			if response.Body.Close(); response.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", manifest, response.Status)
			}
		}
	}
}

// A directory without usable names must not look like an empty release.
func TestMirror_OfAnotherDirectory(t *testing.T) {
	for index, says := range map[string]string{
		`{"schemaVersion":2,"manifests":[{"digest":"sha256:00","annotations":{"org.opencontainers.image.ref.name":"v1.2"}}]}`: `the name "v1.2"`,
		`{"schemaVersion":2,"manifests":[]}`: "the directory has no images",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte(index), 0o600); err != nil {
			t.Fatal(err)
		}
		if images, err := inLayout(dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, %v, want %q", images, err, says)
		}
	}
}
