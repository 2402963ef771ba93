// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"math"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/report"
)

const settingsLong = `List what spec.components of the ClusterAPI object can set for the providers in bundles: each variable
with its default and the file and lines that use it, each feature gate in the arguments of the
manager, and the Deployments. The names of components are those in the status of ClusterAPI.

Any field of any object can be changed with spec.components[].patches. "capi-manifests plan --settings FILE"
shows the effect of settings before they are written to the cluster.

A SOURCE is a release (images.json; - is stdin), or a directory, an OCI layout, an archive or an image, as for "validate".`

const settingsExample = `  # List the settings of a provider
  capi-manifests settings capi-manifests

  # List the settings of all providers of a release
  capi-manifests settings images.json

  # The variables without a default
  capi-manifests settings quay.io/me/capa:bundled -o json | jq '.[].variables[] | select(.required)'`

func newSettings() *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:     "settings SOURCE...",
		Short:   "List what can be set for the providers of a release",
		Long:    settingsLong,
		Example: settingsExample,
		Args:    cli.Args(1, math.MaxInt, "SOURCE, an images.json, an image, an OCI layout, an archive or a directory"),
		RunE: func(cmd *cobra.Command, sources []string) error {
			all, err := report.SettableIn(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), sources)
			if err != nil {
				return err
			}
			return format.Write(cmd.OutOrStdout(), all, func(w *bytes.Buffer) { report.SettingsTable(w, all) })
		},
	}
	format.Register(cmd)
	return cmd
}
