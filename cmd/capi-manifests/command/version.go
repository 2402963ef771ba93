// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
)

// buildVersion describes the build of this program.
type buildVersion struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	// Platform is the operating system and the architecture.
	Platform string `json:"platform"`
}

func newVersion(v buildVersion) *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show version information",
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

func (v buildVersion) String() string { return v.Version + " " + v.Go + " " + v.Platform }

// versionOf completes a version with the build information of the program.
func versionOf(version string) buildVersion {
	v := buildVersion{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			v.Commit = setting.Value
		}
	}
	return v
}
