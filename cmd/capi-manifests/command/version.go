// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/internal/buildinfo"
)

func newVersion(v buildinfo.Version) *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show version information",
		Long:    "Show the version of the program; with -o json also the commit and the versions of all modules in it.",
		Example: "  capi-manifests version\n  capi-manifests version -o json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return format.Write(cmd.OutOrStdout(), v, func(w *bytes.Buffer) {
				fmt.Fprintln(w, cmd.Root().DisplayName(), v)
			})
		},
	}
	format.Register(cmd)
	return cmd
}
