// SPDX-License-Identifier: Apache-2.0

// Package administer has the commands that change an installation, with patches that an administrator could also make with
// kubectl.
package administer

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
)

// Commands returns pause, resume, override, unmanage and rollback.
func Commands() []*cobra.Command {
	return []*cobra.Command{newRollback(), newPause(), newResume(), newOverride(), newUnmanage()}
}

// help describes what pause, resume, override, unmanage and rollback have in common.
const help = `

The command prints the kubectl command that makes the same change, and makes it. With --dry-run the API server only checks
it. It needs the verbs get and patch on the changed objects.`

// changeFlags are the flags of commands that change a cluster.
type changeFlags struct {
	cluster cli.ClusterFlags
	dryRun  bool
}

func (f *changeFlags) register(cmd *cobra.Command) {
	f.cluster.Register(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only print the change; the API server checks it without storing it")
}

// apply prints patches as commands of kubectl, and makes them. done describes the result.
func (f *changeFlags) apply(cmd *cobra.Command, done string, patches ...change) error {
	config, err := f.cluster.Config()
	if err != nil {
		return err
	}
	for _, patch := range patches {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), patch.kubectl(f.cluster.KubectlFlags()...)); err != nil {
			return err
		}
	}
	if err := send(cmd.Context(), config, patches, f.dryRun); err != nil {
		return err
	}
	if f.dryRun {
		done = "dry run: nothing was changed"
	}
	_, err = fmt.Fprintln(cmd.ErrOrStderr(), done)
	return err
}

// read returns the ClusterAPI object.
func (f *changeFlags) read(cmd *cobra.Command) (*v1alpha1.ClusterAPI, error) {
	cluster, err := f.cluster.Connect()
	if err != nil {
		return nil, err
	}
	return cluster.ClusterAPI(cmd.Context())
}

func newPause() *cobra.Command {
	return newMode(v1alpha1.Paused, "pause", "Stop the installer's writes to the cluster", `Pause the installer: it reports pending changes and
drift, and writes nothing until it is resumed. Neither upgrades nor an uninstall proceed while it is paused.`, "The installer is paused; capi-manifests resume ends it.")
}

func newResume() *cobra.Command {
	return newMode(v1alpha1.Managed, "resume", "End a pause of the installer", "Resume the installer: it rolls out the requested release and reverts drift again.",
		"The installer is resumed; capi-manifests status shows the progress.")
}

func newMode(mode v1alpha1.InstallerMode, name, short, long, done string) *cobra.Command {
	flags := &changeFlags{}
	cmd := &cobra.Command{
		Use:               name,
		Short:             short,
		Long:              long + help,
		Example:           fmt.Sprintf("  # Show the change without making it\n  capi-manifests %[1]s --dry-run\n\n  # Make it\n  capi-manifests %[1]s", name),
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.apply(cmd, done, clusterAPI(map[string]any{"installerMode": string(mode)}))
		},
	}
	flags.register(cmd)
	return cmd
}
