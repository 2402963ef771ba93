// SPDX-License-Identifier: Apache-2.0

// Package verdict shows the verdicts of a signature policy on images.
package verdict

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/signature"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/internal/parallel"
)

// The decisions of a signature policy.
const (
	Accepted    = "accepted"
	Rejected    = "rejected"
	Undecided   = "undecided"
	NotEnforced = "not enforced"
)

// Verdict is the verdict of a policy on an image.
type Verdict struct {
	Policy   string `json:"policy"`
	Scope    string `json:"scope"`
	Decision string `json:"verdict"`
	// Reason is the cause of a verdict other than accepted.
	Reason string `json:"reason,omitempty"`
}

// Installed returns the verdict on an installed image.
func Installed(v v1alpha1.SignatureVerdict) Verdict {
	decision := map[v1alpha1.Verdict]string{
		v1alpha1.VerdictAccepted: Accepted, v1alpha1.VerdictRejected: Rejected, v1alpha1.VerdictUndecided: Undecided, v1alpha1.VerdictNotEnforced: NotEnforced,
	}[v.Verdict]
	return Verdict{Policy: v.Policy, Scope: v.Scope, Decision: decision}
}

// String returns a verdict such as "accepted by scope quay.io of /etc/containers/policy.json".
func (v Verdict) String() string {
	text := v.Decision
	if v.Policy != "" {
		text += " by scope " + v.Scope + " of " + v.Policy
	}
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	return text
}

// Image is the verdict on an image of a release.
type Image struct {
	// Key is the name of the image in images.json.
	Key string `json:"key"`
	// Reference is the payload reference.
	Reference string `json:"image"`
	Verdict
}

// Policy is a signature policy. The nil Policy has no verdicts.
type Policy struct {
	policy    *policy.Policy
	isDefault bool
	verifier  *signature.Verifier
}

// Load reads a policy.json. A default policy that is missing, or is not for this program, is nil without an error.
func Load(file string, isDefault bool) (*Policy, error) {
	p, err := policy.Load(file)
	if err != nil && isDefault {
		return nil, nil
	}
	if err != nil {
		return nil, &source.ArgumentError{Err: err}
	}
	return &Policy{p, isDefault, &signature.Verifier{
		Policy: func(context.Context) (*policy.Policy, error) { return p, nil }, Registry: source.Registry(), LocationsDir: signature.DefaultLocationsDir,
	}}, nil
}

// Of returns the verdict on an image by digest; nil if the reference is not an image in a registry, or if
// the default policy requires no signature.
func (p *Policy) Of(ctx context.Context, reference string) (*Verdict, error) {
	if _, err := name.NewDigest(reference); err != nil || p == nil {
		return nil, nil //nolint:nilerr // a path
	}
	found := &Verdict{Policy: p.policy.Name(), Scope: p.policy.Scope(reference), Decision: Accepted}
	if needs, err := p.policy.Requirement(reference); err == nil && needs == policy.Accepted {
		if p.isDefault {
			return nil, nil
		}
		found.Decision = NotEnforced
		return found, nil
	}
	err := p.verifier.Verify(ctx, reference)
	switch untrusted, ok := errors.AsType[*extractor.UntrustedError](err); {
	case err == nil:
	case errors.Is(err, extractor.ErrUntrusted):
		found.Decision, found.Reason = Rejected, untrusted.Err.Error()
	case ok:
		found.Decision, found.Reason = Undecided, untrusted.Err.Error()
	default:
		return nil, err
	}
	return found, nil
}

// concurrentImages is the number of images that are verified at the same time.
const concurrentImages = 8

// OfImages returns the verdicts on the images of a release in their order, without those that Of returns as nil.
func (p *Policy) OfImages(ctx context.Context, images imagesjson.Images) ([]Image, error) {
	type result struct {
		verdict *Verdict
		err     error
	}
	results := parallel.MapLimit(images, concurrentImages, func(image imagesjson.Image) result {
		verdict, err := p.Of(ctx, image.Reference)
		return result{verdict, err}
	})
	var all []Image
	var errs []error
	for i, result := range results {
		errs = append(errs, result.err)
		if result.verdict != nil {
			all = append(all, Image{images[i].Name, images[i].Reference, *result.verdict})
		}
	}
	return all, errors.Join(errs...)
}

// Blocked returns an error that names the images that a cluster with the policy does not install: a *RejectedError if the policy
// rejects one; nil if there are none, or if the policy is the default of this machine: the cluster's default may differ.
func (p *Policy) Blocked(images []Image) error {
	if p == nil || p.isDefault {
		return nil
	}
	keys := map[string][]string{}
	for _, image := range images {
		keys[image.Decision] = append(keys[image.Decision], image.Key)
	}
	switch {
	case len(keys[Rejected]) > 0:
		return &RejectedError{p.policy.Name(), keys[Rejected]}
	case len(keys[Undecided]) > 0:
		return fmt.Errorf("signature policy %s is undecided about %s", p.policy.Name(), strings.Join(keys[Undecided], ", "))
	}
	return nil
}

// RejectedError names the images that a signature policy rejects.
type RejectedError struct {
	Policy string
	Keys   []string
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("signature policy %s rejects %s", e.Policy, strings.Join(e.Keys, ", "))
}
