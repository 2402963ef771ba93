// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/outdated"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
)

const outdatedLong = `List the newer versions of the providers of a release: the tags in the repository of each image that are semantic
versions, of each minor version the newest one, and of these at most eight. Their bundles are read, and clusterctl's rules judge the
upgrade of this provider alone: the core provider of the release must support its contract, and a provider of Cluster API itself may not
skip more than three minor versions.

Tags are listed by the registry itself, not by mirrors. A repository whose tags are no versions has no newer version.
"capi-manifests images --set" replaces an image.`

const outdatedExample = `  # List the newer versions of the providers of a release
  capi-manifests outdated images.json

  # The images that can be installed instead
  capi-manifests outdated images.json -o json | jq -r '.[] | .image + "=" + (.newer[] | select(.allowed) | .image)'`

func newOutdated() *cobra.Command {
	var from release.Source
	var format cli.Output
	cmd := &cobra.Command{
		Use: "outdated IMAGES_JSON", Short: "List newer versions of a release's providers", Long: outdatedLong, Example: outdatedExample,
		Args: cli.OneArg("IMAGES_JSON, a file with the images of a release; - is stdin"),
		RunE: func(cmd *cobra.Command, args []string) error {
			from.File = args[0]
			providers, err := outdated.Find(cmd.Context(), from, cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return format.Write(cmd.OutOrStdout(), providers, func(w *bytes.Buffer) { outdated.Table(w, providers) })
		},
	}
	format.Register(cmd)
	cmd.Flags().BoolVar(&from.AllowTags, "allow-tags", false, "accept tags in images.json and resolve them; a cluster rejects tags")
	return cmd
}
