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
	"time"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
	"github.com/capi-installer/capi-installer/internal/lru"
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
// An acceptance is cached by reference, policy and signatures. After RecheckAfter the signatures are read again; if
// that fails, the acceptance remains valid. Rejections are evaluated again when the signatures change.
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

	// Store stores the signatures of accepted images, so that they are accepted after a restart while their sources are
	// unavailable; nil means that none are stored.
	Store Store

	verdicts verdicts
}

// Store stores the signatures of images, by the digests of their references. Like the bundles in it, they are trusted:
// Save is called only with signatures that the policy accepted at that time. Every Load is followed by an evaluation.
type Store interface {
	LoadSignatures(ctx context.Context, image digest.Digest) (data []byte, found bool)
	SaveSignatures(ctx context.Context, image digest.Digest, data []byte)
}

const (
	recheckAfter = time.Hour
	maxVerdicts  = 4096
)

// verdictKey identifies a verdict. Signatures is empty for the verdict on all sources.
type verdictKey struct {
	reference          string
	policy, signatures digest.Digest
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
	accepted, err := v.verify(ctx, p, reference)
	if untrusted, ok := errors.AsType[*extractor.UntrustedError](err); ok && untrusted.Undecided {
		if !known && v.acceptsStored(ctx, p, reference) {
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
	v.save(ctx, reference, accepted)
	return err
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

// verify tries the sources of an image in order, and returns the evidence that the policy accepts.
func (v *Verifier) verify(ctx context.Context, p *policy.Policy, reference string) (evidence, error) {
	image, manifest, err := v.Registry.Open(ctx, reference)
	if errors.Is(err, extractor.ErrInvalid) {
		return evidence{}, err
	}
	if err != nil {
		return evidence{}, undecided(err)
	}
	locations, err := v.locations()
	if err != nil {
		return evidence{}, undecided(err)
	}
	in := policy.Image{Reference: reference, Manifest: manifest, TempDir: v.TempDir}
	var refusals, failures []error
	sources := image.HealthySources()
	for n, source := range sources {
		signatures, err := v.verifyFrom(ctx, p, locations, in, image.From(source, n == len(sources)-1), source)
		switch {
		case err == nil:
			return evidence{Manifest: manifest, Signatures: signatures}, nil
		case errors.As(err, new(*policy.RejectedError)):
			refusals = append(refusals, fmt.Errorf("%s: %w", source.Image.Context().Name(), err))
		default:
			failures = append(failures, err)
		}
	}
	if len(failures) > 0 {
		return evidence{}, undecided(errors.Join(append(failures, refusals...)...))
	}
	return evidence{}, rejected(p, reference, errors.Join(refusals...))
}

func (v *Verifier) locations() (Locations, error) {
	if v.LocationsDir == "" {
		return Locations{}, nil
	}
	return ReadLocations(v.LocationsDir)
}

// verifyFrom evaluates the policy with the signatures of one source, and returns them. The error is a
// *policy.RejectedError if the policy does not accept the image.
func (v *Verifier) verifyFrom(ctx context.Context, p *policy.Policy, locations Locations, in policy.Image, image *fetch.Image, source mirror.Source) ([]policy.Signature, error) {
	found, err := locations.read(ctx, image, source, digest.FromBytes(in.Manifest))
	if err != nil {
		return nil, err
	}
	in.Signatures = found.signatures
	key := verdictKey{in.Reference, p.Digest(), digestOf(in.Signatures)}
	if before, known := v.verdicts.Get(key); known && before.fresh(v.recheckAfter()) {
		return in.Signatures, found.named(before.err)
	}
	err = p.Evaluate(ctx, in)
	if err == nil || errors.As(err, new(*policy.RejectedError)) {
		v.verdicts.Add(key, verdict{err, time.Now()}, 1, maxVerdicts)
		logr.FromContextOrDiscard(ctx).Info("Checked the signatures of an image", "image", in.Reference, "source", source.Image.Context().Name(),
			"signatures", len(in.Signatures), "accepted", err == nil, "scope", p.Scope(in.Reference))
	}
	return in.Signatures, found.named(err)
}

// digestOf returns a digest of a list of signatures.
func digestOf(signatures []policy.Signature) digest.Digest {
	var all []byte
	for _, signature := range signatures {
		all = append(all, digest.FromBytes(signature)...)
	}
	return digest.FromBytes(all)
}

func undecided(err error) error { return &extractor.UntrustedError{Undecided: true, Err: err} }

func rejected(p *policy.Policy, reference string, err error) error {
	return &extractor.UntrustedError{Err: fmt.Errorf("scope %q of %s: %w", p.Scope(reference), p.Name(), err)}
}
