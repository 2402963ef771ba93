// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/image"
	podman "go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"

	"github.com/capi-installer/capi-installer/extractor/signature"
	"github.com/capi-installer/capi-installer/internal/ocilayout"
	"github.com/capi-installer/capi-installer/test/signing"
)

// checkSignatures verifies the signatures of a release: of images with the library of the nodes, of files as "cosign verify-blob", and of
// the provenance with its digests.
func checkSignatures(t *testing.T, b build) {
	t.Helper()
	public := publicKey(t, b.key)
	for file, signed := range map[string]string{b.chartName(): b.chartName() + ".sig", checksums: checksums + ".sig"} {
		content, err := base64.StdEncoding.DecodeString(strings.TrimSpace(read(t, b.output, signed)))
		must(t, err)
		if sum := sha256.Sum256([]byte(read(t, b.output, file))); !ecdsa.VerifyASN1(public, sum[:], content) {
			t.Errorf("the signature of %s is invalid", file)
		}
	}
	checkEnvelope(t, b, public)
	pem, err := b.key.PublicKey()
	must(t, errors.Join(err, os.WriteFile(filepath.Join(b.output, "cosign.pub"), pem, 0o600)))
	_, commands, _ := strings.Cut(section(read(t, "../..", "RELEASE.md"), "## Verify"), "```sh\n")
	commands, _, _ = strings.Cut(commands, "```")
	verify := exec.CommandContext(t.Context(), "sh", "-e", "-c", commands)
	verify.Dir = b.output
	if output, err := verify.CombinedOutput(); err != nil || !bytes.Contains(output, []byte("Verified OK")) {
		t.Errorf("%s%v\n%s", commands, err, output)
	}
	other, err := signing.NewKey()
	must(t, err)
	for program, repository := range map[string]string{installer: b.repository, "capi-lifecycle-hooks": "quay.io/example/capi-lifecycle-hooks"} {
		pushed := published(t, b, program)
		for _, reference := range pushed {
			if err := accepted(t, reference, repository, b.key); err != nil {
				t.Errorf("%s: %v", reference, err)
			}
		}
		if err := accepted(t, pushed[0], repository, other); err == nil {
			t.Errorf("the signature of %s is accepted with another key", program)
		}
	}
}

func publicKey(t *testing.T, key *signature.Key) *ecdsa.PublicKey {
	t.Helper()
	text, err := key.PublicKey()
	must(t, err)
	block, _ := pem.Decode(text)
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	must(t, err)
	return parsed.(*ecdsa.PublicKey)
}

// checkEnvelope verifies the signed provenance, and that its digests are the digests of the files.
func checkEnvelope(t *testing.T, b build, public *ecdsa.PublicKey) {
	t.Helper()
	var envelope dsse.Envelope
	must(t, json.Unmarshal([]byte(read(t, b.output, "provenance.intoto.jsonl")), &envelope))
	verifier, err := dsse.NewEnvelopeVerifier(verifyingKey{public})
	must(t, err)
	_, payload, err := verifier.VerifyAndDecode(t.Context(), &envelope)
	must(t, err)
	var s statement
	must(t, json.Unmarshal(payload, &s))
	if envelope.PayloadType != "application/vnd.in-toto+json" || s.PredicateType != "https://slsa.dev/provenance/v1" || len(s.Subject) < 8 {
		t.Errorf("%s about %s with %d files", envelope.PayloadType, s.PredicateType, len(s.Subject))
	}
	for _, file := range s.Subject {
		if sum, err := b.sum(file.Name); err != nil || sum != file.Digest["sha256"] {
			t.Errorf("provenance of %s: %v, want %s, %v", file.Name, file.Digest, sum, err)
		}
	}
	envelope.Payload = base64.StdEncoding.EncodeToString(bytes.Replace(payload, []byte(b.version), []byte("v9.9.9"), 1))
	if _, err := verifier.Verify(t.Context(), &envelope); err == nil {
		t.Error("a changed provenance is accepted")
	}
}

// verifyingKey verifies envelopes.
type verifyingKey struct{ key *ecdsa.PublicKey }

func (k verifyingKey) Verify(_ context.Context, data, signed []byte) error {
	if sum := sha256.Sum256(data); !ecdsa.VerifyASN1(k.key, sum[:], signed) {
		return errors.New("invalid signature")
	}
	return nil
}
func (verifyingKey) KeyID() (string, error)     { return "", nil }
func (k verifyingKey) Public() crypto.PublicKey { return k.key }

// published pushes the image of a program and its signatures to a registry, as RELEASE.md describes, and returns the references of the
// images that nodes pull.
func published(t *testing.T, b build, program string) (references []string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repository, err := name.NewRepository(strings.TrimPrefix(server.URL, "http://") + "/" + program)
	must(t, err)
	entry, err := ocilayout.Read(filepath.Join(b.output, program+"-image.tar"))
	must(t, err)
	index := entry.(v1.ImageIndex)
	must(t, remote.WriteIndex(repository.Tag(b.version), index))
	archives, err := filepath.Glob(filepath.Join(b.output, program+"-image.sha256-*.sig.tar"))
	if err != nil || len(archives) != 1+len(imagePlatforms) {
		t.Fatalf("signatures %v, %v", archives, err)
	}
	for _, archive := range archives {
		attachment, err := ocilayout.Read(archive)
		must(t, err)
		tag := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), program+"-image."), ".tar")
		must(t, remote.Write(repository.Tag(tag), attachment.(v1.Image)))
	}
	manifest, err := index.IndexManifest()
	must(t, err)
	for _, image := range manifest.Manifests {
		references = append(references, repository.Digest(image.Digest.String()).String())
	}
	return references
}

// accepted reports whether a node with a policy for a key and a repository would run an image.
func accepted(t *testing.T, reference, repository string, key *signature.Key) error {
	t.Helper()
	public, err := key.PublicKey()
	must(t, err)
	policy, err := podman.NewPolicyFromBytes(fmt.Appendf(nil, `{"default": [{"type": "sigstoreSigned", "keyData": %q, "signedIdentity": {"type": "exactRepository", "dockerRepository": %q}}]}`,
		base64.StdEncoding.EncodeToString(public), repository))
	must(t, err)
	node, err := podman.NewPolicyContext(policy)
	must(t, err)
	defer func() { _ = node.Destroy() }()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "default.yaml"), []byte("default-docker: {use-sigstore-attachments: true}\n"), 0o600))
	system := &types.SystemContext{DockerInsecureSkipTLSVerify: types.OptionalBoolTrue, RegistriesDirPath: dir, SystemRegistriesConfPath: filepath.Join(dir, "registries.conf"), AuthFilePath: filepath.Join(dir, "auth.json")}
	must(t, errors.Join(os.WriteFile(system.SystemRegistriesConfPath, nil, 0o600), os.WriteFile(system.AuthFilePath, []byte("{}"), 0o600)))
	pulled, err := docker.ParseReference("//" + reference)
	must(t, err)
	source, err := pulled.NewImageSource(t.Context(), system)
	must(t, err)
	defer source.Close()
	allowed, err := node.IsRunningImageAllowed(t.Context(), image.UnparsedInstance(source, nil))
	if err == nil && !allowed {
		err = errors.New("not allowed")
	}
	return err
}

func TestReadKey(t *testing.T) {
	if key, err := readKey(""); key != nil || err != nil {
		t.Errorf("without a file: %v, %v", key, err)
	}
	file := filepath.Join(t.TempDir(), "cosign.key")
	must(t, os.WriteFile(file, []byte("text"), 0o600))
	if _, err := readKey(file); err == nil || !strings.Contains(err.Error(), "reading "+file+": invalid private key: not in PEM format") {
		t.Errorf("invalid key: %v", err)
	}
}

func TestMoveChanges(t *testing.T) {
	b := build{root: t.TempDir(), version: "v0.1.0"}
	file, day := filepath.Join(b.root, "CHANGELOG.md"), time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	must(t, os.WriteFile(file, []byte("# Changelog\n\n## [Unreleased]\n\n- new\n"), 0o600))
	var notes bytes.Buffer
	must(t, b.moveChanges(day, &notes))
	if got, want := read(t, b.root, "CHANGELOG.md"), "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-28\n\n- new\n"; got != want || notes.String() != "- new\n" {
		t.Errorf("got %q with notes %q, want %q", got, notes.String(), want)
	}
	if err := b.moveChanges(day, &notes); err == nil || !strings.Contains(err.Error(), "no unreleased changes") {
		t.Errorf("the second time: %v", err)
	}
	b.version = "0.1"
	if err := b.moveChanges(day, &notes); err == nil || !strings.Contains(err.Error(), "invalid version") {
		t.Errorf("an invalid version: %v", err)
	}
}

// The notes of a release are for users: at most twenty lines.
func TestChangelog_IsShort(t *testing.T) {
	for _, version := range strings.Split(read(t, "../..", "CHANGELOG.md"), "\n## [")[1:] {
		version, _, _ = strings.Cut(version, "\n## ")
		lines := 0
		for line := range strings.Lines(version) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		if lines > 21 { // with the heading
			t.Errorf("CHANGELOG.md has %d lines in [%.20s, want at most 20", lines-1, version)
		}
	}
}
