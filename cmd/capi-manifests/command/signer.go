// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/extractor/signature"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
)

// passphraseVariable is cosign's environment variable for the passphrase of
// a key.
const passphraseVariable = "COSIGN_PASSWORD"

// signer holds the flags for a signature.
type signer struct {
	keyFile, passphraseFile, identity string
}

// register adds the flags; key is the name of the flag for the private key.
func (s *signer) register(set *pflag.FlagSet, key string) {
	set.StringVar(&s.keyFile, key, "", "private key `file` to sign with, as of \"cosign generate-key-pair\" or \"skopeo generate-sigstore-key\", or in PEM")
	set.StringVar(&s.passphraseFile, "passphrase-file", "", "`file` with the passphrase of an encrypted key (default the variable "+passphraseVariable+")")
	set.StringVar(&s.identity, "sign-identity", "", "`name` of the image that the signature states, such as quay.io/me/capa:v2.10.0 (default the name of the signed image)")
}

// key reads the private key. Its errors contain neither the key nor the passphrase.
func (s *signer) key() (*signature.Key, error) {
	data, err := os.ReadFile(s.keyFile)
	if err != nil {
		return nil, cli.WrongUsage(fmt.Errorf("reading the private key: %w", err))
	}
	passphrase := []byte(os.Getenv(passphraseVariable))
	if s.passphraseFile != "" {
		if passphrase, err = os.ReadFile(s.passphraseFile); err != nil {
			return nil, cli.WrongUsage(fmt.Errorf("reading the passphrase: %w", err))
		}
		passphrase = bytes.TrimRight(passphrase, "\r\n")
	}
	key, err := signature.ParseKey(data, passphrase)
	if errors.Is(err, signature.ErrPassphrase) && len(passphrase) == 0 {
		err = errors.New("the private key is encrypted: set --passphrase-file or the variable " + passphraseVariable)
	}
	if err != nil {
		return nil, cli.WrongUsage(fmt.Errorf("reading %s: %w", s.keyFile, err))
	}
	return key, nil
}

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
