// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/report"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
)

const settingsLong = `List what spec.components of the ClusterAPI object can set for the providers in bundles: each variable
with its default and the lines of the manifests that use it, each feature gate in the arguments of the
manager, and the Deployments. The names of components are those in the status of ClusterAPI.

Any field of any object can be changed with spec.components[].patches. "capi-manifests plan --settings FILE"
shows the effect of settings before they are written to the cluster.

A SOURCE is a directory, an OCI layout, an archive or an image, as for "validate".`

const settingsExample = `  # List the settings of a provider
  capi-manifests settings capi-manifests

  # The variables without a default
  capi-manifests settings quay.io/me/capa:bundled -o json | jq '.[].variables[] | select(.required)'`

func newSettings() *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:               "settings SOURCE...",
		Short:             "List what can be set for the providers of a release",
		Long:              settingsLong,
		Example:           settingsExample,
		Args:              cli.AtLeastOneArg("SOURCE, an image, an OCI layout, an archive or a directory"),
		ValidArgsFunction: cli.CompleteSources,
		RunE: func(cmd *cobra.Command, sources []string) error {
			all, err := settable(cmd, sources)
			if err != nil {
				return err
			}
			return format.Write(cmd.OutOrStdout(), all, func(w *bytes.Buffer) { report.SettingsTable(w, all) })
		},
	}
	format.Register(cmd)
	return cmd
}

// settable returns the settings that the providers of sources can have.
func settable(cmd *cobra.Command, sources []string) ([]report.Settable, error) {
	all := []report.Settable{}
	var errs []error
	for _, src := range sources {
		bundles, src, err := source.Bundles(cmd.Context(), cmd.ErrOrStderr(), src)
		errs = append(errs, err)
		for _, bundle := range bundles {
			set, err := release.Render(operand.Inputs{Bundles: []extractor.Bundle{release.InImage(bundle, src)}, Variables: release.Placeholders(bundle)})
			errs = append(errs, err)
			for _, component := range set.Operands {
				all = append(all, report.NewSettable(bundle, component))
			}
		}
	}
	return all, errors.Join(errs...)
}
