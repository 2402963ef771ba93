// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/extensionreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
)

// extensionServer holds the flags of validate for a server of Runtime Extensions.
type extensionServer struct{ url, caBundle string }

func (e *extensionServer) register(flags *pflag.FlagSet) {
	flags.StringVar(&e.url, "extension-server", "", "`URL` of a server of the Runtime Extension, to check its answers to Discovery too")
	flags.StringVar(&e.caBundle, "extension-ca-bundle", "", "`file` with the authorities of the certificate of --extension-server (default the system's)")
}

// add adds the findings about the server as a whole to the first bundle.
func (e *extensionServer) add(cmd *cobra.Command, result *findings.Report) error {
	if e.url == "" || len(result.Bundles) == 0 {
		if e.caBundle != "" {
			return cli.WrongUsage(errors.New("--extension-ca-bundle requires --extension-server"))
		}
		return nil
	}
	client, err := source.ExtensionClient(e.url, e.caBundle)
	if err != nil {
		return err
	}
	return extensionreport.Discover(cmd.Context(), client, e.url, result)
}
