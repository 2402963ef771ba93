// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/report"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
)

const inspectLong = `Show the bundles of an image: metadata, objects by kind, container images, and variables with
their defaults.

SOURCE is an image, an OCI layout, an archive of "podman save", or a directory: with a
bundle, or with the ConfigMaps of "generate --transport configmap". Every digest is verified,
including the content ID of the manifests, so inspect shows exactly the bundle that a cluster reads.`

const inspectExample = `  # Inspect an image
  capi-manifests inspect quay.io/me/capa@sha256:…

  # Inspect the output of generate or pack
  capi-manifests inspect capi-manifests
  capi-manifests inspect capa.oci

  # Write the manifests
  capi-manifests inspect quay.io/me/capa:v2.10.0 --manifests | kubectl apply --dry-run=server -f -

  # Print the content ID
  capi-manifests inspect capi-manifests -o json | jq -r '.bundles[].metadata.contentID'`

func newInspect() *cobra.Command {
	var format cli.Output
	var manifests bool
	var signatures signatureFlags
	cmd := &cobra.Command{
		Use:     "inspect SOURCE",
		Short:   "Show the contents of a bundle or image",
		Long:    inspectLong,
		Example: inspectExample,
		Args:    cli.OneArg("SOURCE, an image, an OCI layout, an archive or a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if manifests && format != cli.Table {
				return cli.WrongUsage(errors.New("--manifests and -o cannot be used together"))
			}
			bundles, src, err := source.Bundles(cmd.Context(), cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			if manifests {
				return report.WriteManifests(cmd.OutOrStdout(), bundles)
			}
			found, err := report.Inspect(src, bundles)
			if err != nil {
				return err
			}
			policy, err := signatures.load(cmd)
			if err != nil {
				return err
			}
			if found.Signature, err = policy.Of(cmd.Context(), src); err != nil {
				return err
			}
			return format.Write(cmd.OutOrStdout(), found, found.Table)
		},
	}
	format.Register(cmd)
	signatures.register(cmd, "whose verdict on an image is shown")
	cmd.Flags().BoolVar(&manifests, "manifests", false, "manifests only, unmodified unless stdout is a terminal")
	return cmd
}
