// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package signature

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	gcrremote "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/cache"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
	"github.com/capi-installer/capi-installer/test/registry"
)

func newKey(t *testing.T) *Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, private)
}

// parsed returns a private key as it is read from a file.
func parsed(t *testing.T, private *ecdsa.PrivateKey) *Key {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// fixture is a registry with an image, and a verifier whose policy requires signatures.
type fixture struct {
	*testing.T
	*Verifier
	*registry.Registry
	key       *Key
	image     v1.Image
	reference string
	policy    *policy.Policy
	conf      string // registries.conf
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, Registry: registry.New(t, registry.Options{}), key: newKey(t)}
	f.image = registry.MustImage(t, registry.Layer{Txtar: "-- etc/motd --\n" + t.Name() + "\n"})
	f.reference = f.MustPush(t, "providers/aws", f.image)
	f.policy = f.signedBy(f.key)
	client := &fetch.Client{
		Retry:    fetch.Retry{Attempts: 1},
		Settings: func(context.Context) (fetch.Settings, error) { return fetch.Settings{RegistriesConf: f.conf}, nil },
	}
	f.Verifier = &Verifier{
		Policy:   func(context.Context) (*policy.Policy, error) { return f.policy, nil },
		Registry: &remote.Registry{Client: client}, TempDir: t.TempDir(), RecheckAfter: time.Nanosecond,
	}
	return f
}

func (f *fixture) parse(text string) *policy.Policy {
	f.Helper()
	p, err := policy.Parse("policy.json", []byte(text))
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// signedBy requires signatures by a key for all images.
func (f *fixture) signedBy(key *Key) *policy.Policy {
	f.Helper()
	public, err := key.PublicKey()
	if err != nil {
		f.Fatal(err)
	}
	return f.parse(fmt.Sprintf(`{"default": [{"type": "sigstoreSigned", "keyData": %q}]}`, base64.StdEncoding.EncodeToString(public)))
}

// sign stores a signature of an image in a repository of a registry.
func (f *fixture) sign(in *registry.Registry, key *Key, repository, identity string, image gcrremote.Taggable) {
	f.Helper()
	f.attach(in, key, repository, identity, image, image)
}

// attach stores a signature of an image under the tag for another one.
func (f *fixture) attach(in *registry.Registry, key *Key, repository, identity string, image, at gcrremote.Taggable) {
	f.Helper()
	attachment, err := key.Attach(nil, identity, digestOfImage(f.T, image))
	if err == nil {
		_, err = in.PushTag(repository, AttachmentTag(digestOfImage(f.T, at)), attachment)
	}
	if err != nil {
		f.Fatal(err)
	}
}

func digestOfImage(t *testing.T, image gcrremote.Taggable) digest.Digest {
	t.Helper()
	raw, err := image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.FromBytes(raw)
}

// name is the name of the image in its own registry.
func (f *fixture) name() string { return f.Host() + "/providers/aws:v1" }

func (f *fixture) accepted() {
	f.Helper()
	if err := f.Verify(f.Context(), f.reference); err != nil {
		f.Errorf("got %v, want an acceptance", err)
	}
}

// rejected checks for a rejection whose message contains texts.
func (f *fixture) rejected(texts ...string) {
	f.Helper()
	err := f.Verify(f.Context(), f.reference)
	if !errors.Is(err, extractor.ErrUntrusted) {
		f.Errorf("got %v, want a rejection", err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			f.Errorf("the message %q does not contain %q", err, text)
		}
	}
}

// undecided checks for a failed evaluation.
func (f *fixture) undecided(text string) {
	f.Helper()
	err := f.Verify(f.Context(), f.reference)
	untrusted, ok := errors.AsType[*extractor.UntrustedError](err)
	if !ok || !untrusted.Undecided || errors.Is(err, extractor.ErrUntrusted) || !strings.Contains(err.Error(), text) {
		f.Errorf("got %v, want an undecided verdict with %q", err, text)
	}
}

// tagPath is a part of the path of the attachment.
const tagPath = ".sig"

func TestVerifier_AcceptsASignature(t *testing.T) {
	f := newFixture(t)
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.accepted()
	tagged := strings.Replace(f.reference, "@", ":v1@", 1)
	if err := f.Verify(t.Context(), tagged); err != nil {
		t.Errorf("%s: %v", tagged, err)
	}
}

func TestVerifier_RejectsAnUnsignedImage(t *testing.T) {
	f := newFixture(t)
	f.rejected(`scope "default" of policy.json`, f.Host()+": signature not found", AttachmentTag(digestOfImage(t, f.image)))
}

func TestVerifier_RejectsASignatureForAnotherDigest(t *testing.T) {
	f := newFixture(t)
	other := registry.MustImage(t, registry.Layer{Txtar: "-- etc/motd --\nother\n"})
	f.attach(f.Registry, f.key, "providers/aws", f.name(), other, f.image)
	f.rejected(digestOfImage(t, other).String() + " does not match")
}

func TestVerifier_RejectsAnotherIdentity(t *testing.T) {
	f := newFixture(t)
	f.sign(f.Registry, f.key, "providers/aws", "quay.io/other/aws:v1", f.image)
	f.rejected(`identity "quay.io/other/aws:v1" is not accepted`)
}

func TestVerifier_RejectsAnotherKey(t *testing.T) {
	f := newFixture(t)
	f.sign(f.Registry, newKey(t), "providers/aws", f.name(), f.image)
	f.rejected("cryptographic signature verification failed")
}

func TestVerifier_NoticesARemovedSignature(t *testing.T) {
	f := newFixture(t)
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.accepted()
	f.Fail(registry.Fault{Path: tagPath, Status: http.StatusNotFound})
	f.rejected("signature not found")
	f.Heal()
	f.Fail(registry.Fault{Status: http.StatusServiceUnavailable})
	f.undecided("503") // the previous acceptance does not return
	f.Heal()
	f.accepted()
}

// restart creates a verifier with empty caches.
func (f *fixture) restart() {
	f.Verifier = &Verifier{Policy: f.Policy, Registry: f.Verifier.Registry, TempDir: f.TempDir(), RecheckAfter: f.RecheckAfter, Store: f.Store}
}

func TestVerifier_AcceptsStoredSignaturesAfterARestart(t *testing.T) {
	f := newFixture(t)
	f.Store = &cache.Store{Dir: t.TempDir()}
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.accepted()
	f.Fail(registry.Fault{Status: http.StatusServiceUnavailable})
	f.restart()
	f.accepted()
	trusted := f.policy
	f.restart()
	f.policy = f.signedBy(newKey(t))
	f.undecided("503")
	f.Heal()
	f.Fail(registry.Fault{Path: tagPath, Status: http.StatusNotFound})
	f.policy = trusted
	f.rejected("signature not found")
	f.Heal()
	f.Fail(registry.Fault{Status: http.StatusServiceUnavailable})
	f.restart()
	f.undecided("503") // the rejection removed the stored signatures
}

func TestVerifier_NoticesAnAddedSignature(t *testing.T) {
	f := newFixture(t)
	f.RecheckAfter = 0
	f.rejected()
	f.sign(f.Registry, newKey(t), "providers/aws", f.name(), f.image)
	f.rejected("verification failed")
	f.rejected("verification failed") // cached
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.accepted()
}

func TestVerifier_NoticesAChangedPolicy(t *testing.T) {
	f := newFixture(t)
	f.RecheckAfter = 0
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.accepted()
	first := f.policy
	f.policy = f.signedBy(newKey(t))
	f.rejected("verification failed")
	f.policy = f.parse(`{"default": [{"type": "insecureAcceptAnything"}]}`)
	f.accepted()
	f.policy = first
	f.accepted()
	f.policy = nil
	f.accepted()
}

func TestVerifier_UndecidedWhileUnreachable(t *testing.T) {
	f := newFixture(t)
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.Fail(registry.Fault{Path: tagPath, Status: http.StatusServiceUnavailable})
	f.undecided("503 Service Unavailable")
	f.Heal()
	f.accepted()
	f.Fail(registry.Fault{Status: http.StatusServiceUnavailable})
	f.accepted() // the image remains accepted
	f.policy = f.signedBy(newKey(t))
	f.undecided("503 Service Unavailable")
	f.Policy = func(context.Context) (*policy.Policy, error) { return nil, errors.New("the policy is away") }
	f.undecided("the policy is away")
}

func TestVerifier_RejectsByDefault(t *testing.T) {
	f := newFixture(t)
	f.policy = f.parse(fmt.Sprintf(`{"default": [{"type": "reject"}], "transports": {"docker": {%q: [{"type": "insecureAcceptAnything"}]}}}`, f.Host()+"/providers/azure"))
	f.Reset()
	f.rejected(`scope "default"`)
	f.reference = f.MustPush(t, "providers/azure", f.image)
	f.Reset()
	f.accepted()
	if n := len(f.Requests()); n > 0 {
		t.Errorf("got %d requests for verdicts that need no signature", n)
	}
}

func TestVerifier_CachesAcceptances(t *testing.T) {
	f := newFixture(t)
	f.RecheckAfter = 0
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.accepted()
	f.Reset()
	f.accepted()
	if n := len(f.Requests()); n > 0 {
		t.Errorf("got %d requests, want none", n)
	}
}

// mirrored creates a mirror with the image, but without its signature.
func (f *fixture) mirrored(also string) *registry.Registry {
	f.Helper()
	at := registry.New(f.T, registry.Options{Address: "127.0.0.2:0"})
	at.MustPush(f.T, "copies/aws", f.image)
	f.conf = filepath.Join(f.TempDir(), "registries.conf")
	text := fmt.Appendf(nil, "[[registry]]\nlocation = %q\n%s\n[[registry.mirror]]\nlocation = %q\n", f.Host()+"/providers", also, at.Host()+"/copies")
	if err := os.WriteFile(f.conf, text, 0o600); err != nil {
		f.Fatal(err)
	}
	return at
}

func (f *fixture) TempDir() string { return f.T.TempDir() }

func TestVerifier_MirrorWithoutSignatures(t *testing.T) {
	f := newFixture(t)
	at := f.mirrored("")
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.accepted() // with the signature of the image's own registry
	f.verdicts = *new(verdicts)
	f.Fail(registry.Fault{Status: http.StatusServiceUnavailable})
	f.undecided(at.Host() + ": signature not found")
	f.Heal()
	f.mirrored("blocked = true")
	f.rejected(": signature not found")
}

func TestVerifier_MirrorWithSignatures(t *testing.T) {
	f := newFixture(t)
	at := f.mirrored("blocked = true")
	f.sign(at, f.key, "copies/aws", f.name(), f.image)
	f.accepted() // the signature has the name of the image in its own registry
	f.verdicts = *new(verdicts)
	f.sign(at, f.key, "copies/aws", at.Host()+"/copies/aws:v1", f.image)
	f.rejected("is not accepted")
}

// As in CRI-O, the signature of an index does not count for its images.
func TestVerifier_Index(t *testing.T) {
	f := newFixture(t)
	index, err := registry.Format{}.Index(registry.Child{Platform: "linux/amd64", Image: f.image})
	if err != nil {
		t.Fatal(err)
	}
	f.reference = f.MustPush(t, "providers/aws", index)
	f.sign(f.Registry, f.key, "providers/aws", f.name(), index)
	f.rejected("signature not found")
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.accepted()
}

func TestVerified_ChecksBeforeTheCacheIsUsed(t *testing.T) {
	f := newFixture(t)
	next := &cache.Cached{Next: f.Verifier.Registry}
	if _, err := next.Fetch(t.Context(), f.reference); err != nil {
		t.Fatal(err)
	}
	verified := &Verified{Verifier: f.Verifier, Next: next}
	_, err := verified.Fetch(t.Context(), f.reference)
	at, ok := errors.AsType[*extractor.Error](err)
	if !ok || at.Image != f.reference || !errors.Is(err, extractor.ErrUntrusted) {
		t.Errorf("got %v, want an untrusted image", err)
	}
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	if _, err := verified.Fetch(t.Context(), f.reference); err != nil {
		t.Error(err)
	}
}

func TestVerifier_Verdict(t *testing.T) {
	f := newFixture(t)
	verdict := func(want v1alpha1.Verdict, policy, scope string) {
		t.Helper()
		expected := v1alpha1.SignatureVerdict{Image: v1alpha1.ImageReference(f.reference), Verdict: want, Policy: policy, Scope: scope}
		if got := f.Verdict(t.Context(), f.reference); got != expected {
			t.Errorf("got %+v, want %+v", got, expected)
		}
	}
	verdict(v1alpha1.VerdictUndecided, "policy.json", "default")
	f.rejected("signature not found")
	verdict(v1alpha1.VerdictRejected, "policy.json", "default")
	f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
	f.accepted()
	verdict(v1alpha1.VerdictAccepted, "policy.json", "default")
	f.policy = f.signedBy(newKey(t))
	verdict(v1alpha1.VerdictUndecided, "policy.json", "default")
	f.policy = f.parse(fmt.Sprintf(`{"default": [{"type": "reject"}], "transports": {"docker": {%q: [{"type": "insecureAcceptAnything"}]}}}`, f.Host()+"/providers"))
	verdict(v1alpha1.VerdictNotEnforced, "policy.json", f.Host()+"/providers")
	f.policy = f.parse(`{"default": [{"type": "reject"}]}`)
	verdict(v1alpha1.VerdictRejected, "policy.json", "default")
	f.policy = nil
	verdict(v1alpha1.VerdictNotEnforced, "", "")
}

// TestVerifier_NamesTheBundleFormat: cosign 3 signs in the bundle format, that the nodes do not read: as a referrer, or in the tag.
func TestVerifier_NamesTheBundleFormat(t *testing.T) {
	f := newFixture(t)
	tag := AttachmentTag(digestOfImage(t, f.image))
	f.rejected("signature not found: the repository has no signature in the tag "+tag, "cosign sign --new-bundle-format=false --use-signing-config=false")
	const bundle = "application/vnd.dev.sigstore.bundle.v0.3+json"
	attachment, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{Layer: static.NewLayer([]byte("{}"), bundle)})
	if err == nil {
		_, err = f.PushTag("providers/aws", tag, attachment)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.rejected("the tag "+tag+" has only attachments of the types "+bundle, "cosign sign --new-bundle-format=false")
}

// TestVerifier_AttachmentIsAnOCIManifest: containers/image reads no other manifests.
func TestVerifier_AttachmentIsAnOCIManifest(t *testing.T) {
	f := newFixture(t)
	attachment, err := f.key.Attach(nil, f.name(), digestOfImage(t, f.image))
	if err != nil {
		t.Fatal(err)
	}
	tag := AttachmentTag(digestOfImage(t, f.image))
	docker := mutate.MediaType(attachment, types.DockerManifestSchema2)
	if _, err := f.PushTag("providers/aws", tag, docker); err != nil {
		t.Fatal(err)
	}
	f.undecided(tag + `: "application/vnd.docker.distribution.manifest.v2+json"`)
	if _, err := f.PushTag("providers/aws", tag, attachment); err != nil {
		t.Fatal(err)
	}
	f.accepted()
}

// TestVerifier_LeavesASilentMirror: the mirror sends the manifest, but neither the tag of the signature nor its layer.
func TestVerifier_LeavesASilentMirror(t *testing.T) {
	for _, path := range []string{tagPath, "/blobs/"} {
		f := newFixture(t)
		f.mirrored("").Fail(registry.Fault{Path: path, Delay: time.Minute})
		f.sign(f.Registry, f.key, "providers/aws", f.name(), f.image)
		f.Verifier.Registry.Client.Pace.Silence = 500 * time.Millisecond
		start := time.Now()
		if path == tagPath {
			f.accepted()
		}
		if err := f.Verify(t.Context(), f.reference); err != nil || time.Since(start) > 20*time.Second {
			t.Errorf("%s: %v after %s", path, err, time.Since(start))
		}
	}
}
