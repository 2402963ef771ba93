// SPDX-License-Identifier: Apache-2.0

// Package signature checks the signatures of images before their content is used. A signature policy has the
// rules; the signatures come from the image's repository, also in mirrors.
//
//	verifier := &signature.Verifier{Policy: policies.Policy, Registry: registry}
//	fetcher := &signature.Verified{Verifier: verifier, Next: cached}
//
// Fetch of fetcher then fails with an *extractor.UntrustedError unless the policy accepts the image, even if its
// bundles are cached.
package signature

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/image"
	"go.podman.io/image/v5/types"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
	"github.com/capi-installer/capi-installer/internal/lru"
	"github.com/capi-installer/capi-installer/internal/scratch"
)

// Verified is a Fetcher that calls Next for images that the policy accepts. For other images the error is or wraps an
// *extractor.UntrustedError.
type Verified struct {
	Verifier *Verifier
	Next     extractor.Fetcher
}

// Fetch implements extractor.Fetcher.
func (v *Verified) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	if err := v.Verifier.Verify(ctx, reference); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, &extractor.Error{Image: reference, Err: err}
	}
	return v.Next.Fetch(ctx, reference)
}

// Verifier checks images against a policy. It is safe for concurrent use and must not be copied after first use.
//
// As in CRI-O, the policy's scope and the identity in the signature are matched against the payload reference,
// independent of the source. Only signatures of the image itself count, not signatures of an index that lists it. The
// sources of the image are tried in order, until one has signatures that the policy accepts.
//
// An acceptance is cached by reference and policy. After RecheckAfter the signatures are read again; if that fails, the
// acceptance remains valid.
type Verifier struct {
	// Policy returns the current policy; nil means that every image is accepted.
	Policy func(context.Context) (*policy.Policy, error)
	// Registry reads manifests and signatures.
	Registry *remote.Registry
	// LocationsDir is a registries.d directory with further locations of signatures; "" means none.
	LocationsDir string
	// TempDir is the directory for temporary files; "" means os.TempDir.
	TempDir string
	// RecheckAfter is how long the signatures of an accepted image are not read again; 0 means an hour.
	RecheckAfter time.Duration

	// Store stores which policy accepted an image, so that it is accepted after a restart while its sources are
	// unavailable; nil means that nothing is stored.
	Store Store

	verdicts verdicts
}

// Store stores the acceptance of images, by the digests of their references. Like the bundles in it, it is trusted.
type Store interface {
	LoadSignatures(ctx context.Context, image digest.Digest) (data []byte, found bool)
	SaveSignatures(ctx context.Context, image digest.Digest, data []byte)
}

const (
	recheckAfter = time.Hour
	maxVerdicts  = 4096
)

// verdictKey identifies a verdict.
type verdictKey struct {
	reference string
	policy    digest.Digest
}

// verdicts are the verdicts on all images.
type verdicts = lru.Cache[verdictKey, verdict]

type verdict struct {
	err error // nil if the image is accepted
	at  time.Time
}

func (v verdict) fresh(limit time.Duration) bool { return time.Since(v.at) < limit }

// Verify returns nil if the policy accepts an image, by its payload reference. Otherwise the error is an
// *extractor.UntrustedError, or an extractor.ErrInvalid if the manifest is invalid.
func (v *Verifier) Verify(ctx context.Context, reference string) error {
	p, err := v.Policy(ctx)
	if err != nil {
		return undecided(err)
	}
	if p == nil {
		return nil
	}
	needs, err := p.Requirement(reference)
	switch {
	case err != nil:
		return undecided(err)
	case needs == policy.Accepted:
		return nil
	case needs == policy.Rejected:
		return rejected(p, reference, errors.New("it rejects every image of this scope"))
	}
	key := verdictKey{reference: reference, policy: p.Digest()}
	before, known := v.verdicts.Get(key)
	if known && before.err == nil && before.fresh(v.recheckAfter()) {
		return nil
	}
	err = v.verify(ctx, p, reference)
	if untrusted, ok := errors.AsType[*extractor.UntrustedError](err); ok && untrusted.Undecided {
		if !known && v.stored(ctx, key) {
			before, known = verdict{}, true // older than any limit: the next call reads the signatures again
			v.verdicts.Add(key, before, 1, maxVerdicts)
		}
		if known && before.err == nil {
			logr.FromContextOrDiscard(ctx).Info("Failed to read the signatures of an image again; it remains accepted", "image", reference, "error", err.Error())
			return nil
		}
		return err
	}
	v.verdicts.Add(key, verdict{err, time.Now()}, 1, maxVerdicts)
	v.save(ctx, key, err == nil)
	return err
}

// save stores whether the policy accepts an image.
func (v *Verifier) save(ctx context.Context, key verdictKey, accepted bool) {
	image, err := name.NewDigest(key.reference)
	if err != nil || v.Store == nil {
		return
	}
	data := []byte("rejected")
	if accepted {
		data = []byte(key.reference + " " + key.policy.String())
	}
	v.Store.SaveSignatures(ctx, digest.Digest(image.DigestStr()), data)
}

// stored reports whether the policy accepted an image before a restart.
func (v *Verifier) stored(ctx context.Context, key verdictKey) bool {
	image, err := name.NewDigest(key.reference)
	if err != nil || v.Store == nil {
		return false
	}
	data, found := v.Store.LoadSignatures(ctx, digest.Digest(image.DigestStr()))
	return found && string(data) == key.reference+" "+key.policy.String()
}

// Verdict returns the verdict of the current policy on an image at the last Verify. It reads no signatures.
func (v *Verifier) Verdict(ctx context.Context, reference string) v1alpha1.SignatureVerdict {
	out := v1alpha1.SignatureVerdict{Image: v1alpha1.ImageReference(reference), Verdict: v1alpha1.VerdictUndecided}
	p, err := v.Policy(ctx)
	if err != nil {
		return out
	}
	if p == nil {
		out.Verdict = v1alpha1.VerdictNotEnforced
		return out
	}
	out.Policy, out.Scope = p.Name(), p.Scope(reference)
	needs, err := p.Requirement(reference)
	last, known := v.verdicts.Get(verdictKey{reference: reference, policy: p.Digest()})
	switch {
	case err != nil:
	case needs == policy.Accepted:
		out.Verdict = v1alpha1.VerdictNotEnforced
	case needs == policy.Rejected, known && errors.Is(last.err, extractor.ErrUntrusted):
		out.Verdict = v1alpha1.VerdictRejected
	case known && last.err == nil:
		out.Verdict = v1alpha1.VerdictAccepted
	}
	return out
}

func (v *Verifier) recheckAfter() time.Duration { return cmp.Or(v.RecheckAfter, recheckAfter) }

// verify evaluates the policy with the signatures at each source of an image, until it accepts the image.
func (v *Verifier) verify(ctx context.Context, p *policy.Policy, reference string) error {
	dir, err := v.locations()
	if err != nil {
		return undecided(fmt.Errorf("reading the locations of signatures: %w", err))
	}
	defer os.RemoveAll(dir)
	err = v.Registry.Check(ctx, reference, dir, func(ctx context.Context, image *image.UnparsedImage, named types.ImageReference) error {
		return check(ctx, p, image, named)
	})
	logr.FromContextOrDiscard(ctx).Info("Checked the signatures of an image", "image", reference, "accepted", err == nil, "scope", p.Scope(reference))
	switch {
	case err == nil, errors.Is(err, extractor.ErrInvalid):
		return err
	case allRejected(err):
		return rejected(p, reference, err)
	}
	return undecided(err)
}

// allRejected reports whether the policy rejects an image with the signatures at each source.
func allRejected(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // each joined error counts
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !allRejected(err) })
	}
	return errors.As(err, new(*policy.RejectedError))
}

// check reads the signatures of an image and evaluates the policy. Only the rejection by the policy is a *fetch.Rejection.
func check(ctx context.Context, p *policy.Policy, unparsed *image.UnparsedImage, named types.ImageReference) error {
	manifest, _, err := unparsed.Manifest(ctx)
	if err != nil {
		return err
	}
	signatures, err := unparsed.UntrustedSignatures(ctx)
	if err != nil {
		return err
	}
	types := map[string]bool{}
	for _, signature := range signatures {
		if attachment, ok := signature.(interface{ UntrustedMIMEType() string }); ok {
			types[attachment.UntrustedMIMEType()] = true
		}
	}
	if len(signatures) == 0 {
		return reject("signature not found: the repository has no signature in the tag %s, and registries.d names no other place with a signature; %s", AttachmentTag(digest.FromBytes(manifest)), bundles)
	}
	err = p.Evaluate(ctx, image.UnparsedInstanceWithReference(unparsed, named))
	rejected, ok := errors.AsType[*policy.RejectedError](err)
	switch {
	case ok && len(types) > 0 && !types[policy.MediaTypeSigstore]:
		return reject("%w: the tag %s has only attachments of the types %s; %s", rejected, AttachmentTag(digest.FromBytes(manifest)), strings.Join(slices.Sorted(maps.Keys(types)), ", "), bundles)
	case ok:
		return &fetch.Rejection{Err: rejected}
	}
	return err
}

// bundles is the advice for the most common cause: cosign 3 writes signatures that nodes do not read.
const bundles = "signatures in the bundle format, the default of cosign 3, are read neither by this program nor by the nodes of a cluster: " +
	"sign the image with \"capi-manifests sign\", or with \"cosign sign --new-bundle-format=false --use-signing-config=false\""

func reject(format string, args ...any) error {
	return &fetch.Rejection{Err: &policy.RejectedError{Reason: fmt.Errorf(format, args...).Error()}}
}

// AttachmentTag returns the tag that cosign, podman and skopeo give the sigstore signatures of an image in its
// repository: sha256-<hex>.sig.
func AttachmentTag(manifest digest.Digest) string {
	return strings.ReplaceAll(manifest.String(), ":", "-") + ".sig"
}

// DefaultLocationsDir is the directory of the nodes' locations.
const DefaultLocationsDir = "/etc/containers/registries.d"

// locations writes a registries.d directory for the library: the files of LocationsDir. It reads sigstore signatures by default:
// the nodes of OpenShift do so by files that the pod of the installer does not have.
func (v *Verifier) locations() (dir string, err error) {
	files, _ := filepath.Glob(filepath.Join(v.LocationsDir, "*.yaml")) // the pattern is valid
	if v.LocationsDir == "" {
		files = nil
	}
	const key = "default-docker"
	contents, found := map[string][]byte{}, false
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		var content map[string]any
		if err := yaml.Unmarshal(data, &content); err != nil {
			return "", fmt.Errorf("reading %s: %w", file, err)
		}
		if locations, ok := content[key].(map[string]any); ok {
			found = true
			contents[filepath.Base(file)], err = yaml.Marshal(withAttachments(content, key, locations))
		} else {
			contents[filepath.Base(file)] = data
		}
		if err != nil {
			return "", err
		}
	}
	if !found {
		contents["capi-installer-default.yaml"] = []byte(key + ": {use-sigstore-attachments: true}\n")
	}
	return scratch.Dir(v.TempDir, "signatures-", contents)
}

func withAttachments(content map[string]any, key string, locations map[string]any) map[string]any {
	if _, set := locations["use-sigstore-attachments"]; !set {
		locations["use-sigstore-attachments"] = true
	}
	content[key] = locations
	return content
}

func undecided(err error) error { return &extractor.UntrustedError{Undecided: true, Err: err} }

func rejected(p *policy.Policy, reference string, err error) error {
	return &extractor.UntrustedError{Err: fmt.Errorf("scope %q of %s: %w", p.Scope(reference), p.Name(), err)}
}
