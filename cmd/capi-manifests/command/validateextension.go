// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/extension"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
)

// extensionServer holds the flags of validate for a server of Runtime Extensions.
type extensionServer struct{ url, caBundle string }

func (e *extensionServer) register(flags *pflag.FlagSet) {
	flags.StringVar(&e.url, "extension-server", "", "`URL` of a server of the Runtime Extension, to check its answers to Discovery too")
	flags.StringVar(&e.caBundle, "extension-ca-bundle", "", "`file` with the authorities of the certificate of --extension-server (default those of the system)")
}

// add adds the findings about the server as a whole to the first bundle.
func (e *extensionServer) add(cmd *cobra.Command, result *findings.Report) error {
	if e.url == "" || len(result.Bundles) == 0 {
		if e.caBundle != "" {
			return &usageError{errors.New("--extension-ca-bundle requires --extension-server")}
		}
		return nil
	}
	client, err := newExtensionClient(e.url, e.caBundle)
	if err != nil {
		return err
	}
	transcript, err := extension.Discover(cmd.Context(), client)
	if err != nil {
		return err
	}
	if err := transcript.Unreachable(); err != nil {
		return fmt.Errorf("calling %s: %w", e.url, err)
	}
	results := extension.Check(transcript, e.url)
	first := &result.Bundles[0]
	first.Findings = append(first.Findings, extension.Findings(results)...)
	first.More = slices.DeleteFunc(extension.ContractRules(), func(rule contract.Rule) bool {
		return !slices.ContainsFunc(results, func(r extension.Result) bool { return r.Rule == rule.ID })
	})
	result.Count()
	return nil
}
