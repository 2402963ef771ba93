// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/signature"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
)

// signatureFlags select the signature policy of inspect.
type signatureFlags struct{ policyFile string }

const signaturePolicyFlag = "signature-policy"

func (f *signatureFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.policyFile, signaturePolicyFlag, policy.DefaultFile, "policy.json `file` whose verdict on an image is shown; the default file may be missing")
	_ = cmd.MarkFlagFilename(signaturePolicyFlag, "json")
}

// The verdicts of a signature policy.
const (
	verdictAccepted    = "accepted"
	verdictRejected    = "rejected"
	verdictUndecided   = "undecided"
	verdictNotRequired = "not required"
)

// signatureVerdict is the verdict of a policy on an image.
type signatureVerdict struct {
	Policy  string `json:"policy"`
	Scope   string `json:"scope"`
	Verdict string `json:"verdict"`
	// Reason is the cause of a verdict other than accepted.
	Reason string `json:"reason,omitempty"`
}

func (v signatureVerdict) String() string {
	text := v.Verdict + " by scope " + v.Scope + " of " + v.Policy
	if v.Reason != "" {
		text += ": " + v.Reason
	}
	return text
}

// verdict returns the verdict on an image by digest; nil if the source is not an image in a registry, or if
// the default policy is missing or requires no signature.
func (f *signatureFlags) verdict(cmd *cobra.Command, reference string) (*signatureVerdict, error) {
	if _, err := name.NewDigest(reference); err != nil {
		return nil, nil //nolint:nilerr // a path
	}
	isDefault := !cmd.Flag(signaturePolicyFlag).Changed
	p, err := policy.Load(f.policyFile)
	if err != nil && isDefault {
		return nil, nil // this user's policy is none, or is not for this program
	}
	if err != nil {
		return nil, &usageError{err}
	}
	found := &signatureVerdict{Policy: p.Name(), Scope: p.Scope(reference), Verdict: verdictAccepted}
	if needs, err := p.Requirement(reference); err == nil && needs == policy.Accepted {
		if isDefault {
			return nil, nil
		}
		found.Verdict = verdictNotRequired
		return found, nil
	}
	verifier := &signature.Verifier{Policy: func(context.Context) (*policy.Policy, error) { return p, nil }, Registry: source.Registry(), LocationsDir: signature.DefaultLocationsDir}
	err = verifier.Verify(cmd.Context(), reference)
	switch untrusted, ok := errors.AsType[*extractor.UntrustedError](err); {
	case err == nil:
	case errors.Is(err, extractor.ErrUntrusted):
		found.Verdict, found.Reason = verdictRejected, untrusted.Err.Error()
	case ok:
		found.Verdict, found.Reason = verdictUndecided, untrusted.Err.Error()
	default:
		return nil, err
	}
	return found, nil
}
