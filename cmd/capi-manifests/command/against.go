// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/extractor"
)

// against holds the flags of validate for an API server.
type against struct{ server, controlplane string }

func (a *against) register(flags *pflag.FlagSet) {
	flags.StringVar(&a.server, "against", "", "`kubeconfig` of an API server that checks the objects in dry runs, or \""+apiserver.Embedded+"\" to start one")
	flags.StringVar(&a.controlplane, "controlplane", "", "`file` of the program for --against embedded (default controlplane beside capi-manifests, in PATH, or built with Go)")
}

// add adds the findings of the API server.
func (a *against) add(cmd *cobra.Command, result *findings.Report, bundles []extractor.Bundle) error {
	if a.server == "" {
		return nil
	}
	server, stop, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer stop()
	return result.AskServer(cmd.Context(), bundles, server)
}

// addReleases adds the findings of an embedded API server with Cluster API about the templates of releases.
func (a *against) addReleases(cmd *cobra.Command, result *findings.Report) error {
	if a.server == "" || result.Invalid {
		return nil
	}
	server, stop, err := apiserver.OpenCore(cmd.Context(), a.controlplane, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer stop()
	return result.AskCoreServer(cmd.Context(), server)
}

// open connects to the API server, or starts one.
func (a *against) open(cmd *cobra.Command) (server *apiserver.Cluster, stop func(), err error) {
	return apiserver.Open(cmd.Context(), a.server, a.controlplane, cmd.ErrOrStderr())
}
