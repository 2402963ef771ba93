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
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/publish"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/extractor/signature"
	"github.com/capi-installer/capi-installer/extractor/signature/policy"
)

const signLong = `Sign an image in its registry with a sigstore signature. Podman, skopeo, CRI-O and cosign
accept it. The signature is stored under the tag sha256-<digest>.sig of the repository; signatures
that exist stay, and an image is not signed twice with one key. Of an index, each image is signed
too, because nodes check the signature of the image for their platform.

The signature states the name of the image: a policy compares it with the reference that the image
is pulled by. --sign-identity states another name, for an image that is copied before it is used.

The passphrase of an encrypted key is read from --passphrase-file or from COSIGN_PASSWORD. The output
is the reference by digest.`

const signExample = `  # Sign a pushed image
  capi-manifests sign quay.io/me/capa:bundled --key cosign.key --passphrase-file passphrase

  # Sign an image that a cluster pulls under another name
  capi-manifests sign quay.io/me/capa:bundled --key cosign.key --passphrase-file passphrase --sign-identity registry.example.com/capa:v2.10.0`

// signedImage is the output of sign.
type signedImage struct {
	// Reference is the signed image by digest.
	Reference string `json:"reference"`
	// Signatures are the tags of the signatures: of the image or the index, and of
	// the images of an index.
	Signatures []string `json:"signatures"`
}

func newSign() *cobra.Command {
	s := &signer{}
	var format cli.Output
	cmd := &cobra.Command{
		Use:     "sign REFERENCE --key FILE",
		Short:   "Sign an image in a registry",
		Long:    signLong,
		Example: signExample,
		Args:    cli.OneArg("REFERENCE, an image in a registry"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Required(cmd, "key"); err != nil {
				return err
			}
			signed, err := s.run(cmd, args[0])
			if err != nil {
				return err
			}
			return format.Write(cmd.OutOrStdout(), signed, func(w *bytes.Buffer) { fmt.Fprintln(w, signed.Reference) })
		},
	}
	s.register(cmd.Flags())
	format.Register(cmd)
	return cmd
}

func (s *signer) run(cmd *cobra.Command, image string) (signedImage, error) {
	ref, err := source.ParseImage(image)
	if err != nil {
		return signedImage{}, cli.WrongUsage(fmt.Errorf("invalid REFERENCE %q: %w", image, err))
	}
	key, err := s.key()
	if err != nil {
		return signedImage{}, err
	}
	client := source.NewClient()
	reference, err := source.Resolve(cmd.Context(), client, image)
	if err != nil {
		return signedImage{}, err
	}
	found, err := source.Pull(cmd.Context(), client, reference)
	if err != nil {
		return signedImage{}, err
	}
	digests, err := publish.Digests(found)
	if err != nil {
		return signedImage{}, fmt.Errorf("reading %s: %w", reference, err)
	}
	tags, err := publish.Sign(cmd.Context(), key, ref, s.identity, digests)
	if err != nil {
		return signedImage{}, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "signed %s\n", reference)
	return signedImage{Reference: reference, Signatures: tags}, nil
}

// passphraseVariable is cosign's environment variable for the passphrase of
// a key.
const passphraseVariable = "COSIGN_PASSWORD"

// signer holds the flags for a signature.
type signer struct {
	keyFile, passphraseFile, identity string
}

func (s *signer) register(set *pflag.FlagSet) {
	set.StringVar(&s.keyFile, "key", "", "private key `file` to sign with, as of \"cosign generate-key-pair\" or \"skopeo generate-sigstore-key\", or in PEM")
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
