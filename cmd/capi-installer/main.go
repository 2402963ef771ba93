// SPDX-License-Identifier: Apache-2.0

// Command capi-installer installs the Cluster API providers of a release in the
// cluster that it runs in, and reverts external changes to them.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	_ "golang.org/x/crypto/x509roots/fallback" // the image contains no certificates
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capi-installer/capi-installer/internal/buildinfo"
)

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "capi-installer:", err)
		os.Exit(1)
	}
}

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

// newVersion returns the command that shows the build. --version shows its first line.
func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show version information",
		Args:  cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := buildinfo.Of(version)
			switch output {
			case "":
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "capi-installer", v)
				return err
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(v)
			}
			return fmt.Errorf("invalid -o %q: want json", output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "format of the output: json, with the versions of all modules")
	return cmd
}
