// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
)

// signatureFlags select the signature policy whose verdicts are shown.
type signatureFlags struct{ policyFile string }

const signaturePolicyFlag = "signature-policy"

func (f *signatureFlags) register(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.policyFile, signaturePolicyFlag, policy.DefaultFile, "policy.json `file` "+usage+"; the default file may be missing")
	_ = cmd.MarkFlagFilename(signaturePolicyFlag, "json")
}

// load reads the policy; nil if there is none.
func (f *signatureFlags) load(cmd *cobra.Command) (*verdict.Policy, error) {
	return verdict.Load(f.policyFile, !cmd.Flag(signaturePolicyFlag).Changed)
}
