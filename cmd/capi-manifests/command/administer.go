// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/administer"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
)

// administerHelp describes what pause, resume, override, unmanage and rollback have in common.
const administerHelp = `

The command prints the kubectl command that makes the same change, and makes it. With --dry-run the API server only checks
it. It needs the verbs get and patch on the changed objects.`

// administerFlags are the flags of commands that change a cluster.
type administerFlags struct {
	cluster clusterFlags
	dryRun  bool
}

func (f *administerFlags) register(cmd *cobra.Command) {
	f.cluster.register(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only print the change; the API server checks it without storing it")
}

// apply prints patches as commands of kubectl, and makes them. done describes the result.
func (f *administerFlags) apply(cmd *cobra.Command, done string, patches ...administer.Patch) error {
	config, err := f.cluster.config()
	if err != nil {
		return err
	}
	for _, patch := range patches {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), patch.Kubectl(f.cluster.kubectlFlags()...)); err != nil {
			return err
		}
	}
	if err := administer.Apply(cmd.Context(), config, patches, f.dryRun); err != nil {
		return err
	}
	if f.dryRun {
		done = "dry run: nothing was changed"
	}
	_, err = fmt.Fprintln(cmd.ErrOrStderr(), done)
	return err
}

// read returns the ClusterAPI object.
func (f *administerFlags) read(cmd *cobra.Command) (*v1alpha1.ClusterAPI, error) {
	cluster, err := f.cluster.connect()
	if err != nil {
		return nil, err
	}
	return cluster.ClusterAPI(cmd.Context())
}

// kubectlFlags returns the flags of kubectl that select the same cluster.
func (f *clusterFlags) kubectlFlags() (flags []string) {
	if f.kubeconfig != "" {
		flags = append(flags, "--kubeconfig="+f.kubeconfig)
	}
	if f.context != "" {
		flags = append(flags, "--context="+f.context)
	}
	return flags
}

// config returns the configuration of the client.
func (f *clusterFlags) config() (*rest.Config, error) {
	config, err := f.loader().ClientConfig()
	if err != nil {
		return nil, f.explain(err)
	}
	return config, nil
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
	flags := &administerFlags{}
	cmd := &cobra.Command{
		Use:               name,
		Short:             short,
		Long:              long + administerHelp,
		Example:           fmt.Sprintf("  # Show the change without making it\n  capi-manifests %[1]s --dry-run\n\n  # Make it\n  capi-manifests %[1]s", name),
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.apply(cmd, done, administer.Mode(mode))
		},
	}
	flags.register(cmd)
	return cmd
}

const unmanageLong = `Take CRDs away from the installer: it neither modifies nor deletes them, also not in an uninstall, and
only checks that they are compatible with the providers. --undo gives them back.

A name that is neither a CRD of the cluster nor of a stored version is rejected with the nearest name, because a typing error
would leave the CRD managed; --force accepts it.` + administerHelp

const unmanageExample = `  # Manage a CRD yourself
  capi-manifests unmanage clusters.cluster.x-k8s.io

  # Give it back to the installer
  capi-manifests unmanage clusters.cluster.x-k8s.io --undo`

func newUnmanage() *cobra.Command {
	flags := &administerFlags{}
	undo, force := false, false
	cmd := &cobra.Command{
		Use:               "unmanage CRD...",
		Short:             "Take CRDs away from the installer",
		Long:              unmanageLong,
		Example:           unmanageExample,
		Args:              cli.AtLeastOneArg("CRD, a name such as clusters.cluster.x-k8s.io"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, names []string) error {
			return runUnmanage(cmd, flags, names, undo, force)
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&undo, "undo", false, "give the CRDs back to the installer")
	cmd.Flags().BoolVar(&force, "force", false, "accept names of CRDs that do not exist yet")
	return cmd
}

func runUnmanage(cmd *cobra.Command, flags *administerFlags, names []string, undo, force bool) error {
	object, err := flags.read(cmd)
	if err != nil {
		return err
	}
	if undo {
		patch, err := administer.Manage(object, names)
		if err != nil {
			return cli.WrongUsage(err)
		}
		return flags.apply(cmd, "The installer manages "+strings.Join(names, ", ")+" again.", patch)
	}
	if !force {
		if err := checkCRDs(cmd, flags, names); err != nil {
			return err
		}
	}
	return flags.apply(cmd, "The installer no longer manages "+strings.Join(names, ", ")+".", administer.Unmanage(object, names))
}

// checkCRDs rejects names that no CRD of the cluster or of a stored version has.
func checkCRDs(cmd *cobra.Command, flags *administerFlags, names []string) error {
	cluster, err := flags.cluster.connect()
	if err != nil {
		return err
	}
	known, err := cluster.CRDs(cmd.Context())
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if unknown := known.Unknown(name); unknown != nil {
			errs = append(errs, unknown)
		}
	}
	return cli.WrongUsage(errs...)
}
