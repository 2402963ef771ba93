// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/diffreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/history"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

const historyLong = `List the versions of Cluster API that were installed in a cluster, newest first: when each became the desired version, the time until
it was installed or replaced, the result, and the changed components.

The installer records the last 20 versions in ConfigMap capi-installer-history, also after their objects are gone. The desired version, the
installed one, and older ones until they are removed are stored with their objects: the number of differences from the version before is shown,
and --diff VERSION lists them as diff does, by severity; --full shows folded changes. history reads the ClusterAPI object and the ConfigMaps in the namespace of the installer, as
ClusterRole cluster-reader of OpenShift, or view of other clusters, allows, and never writes.`

const historyExample = `  # List the versions
  capi-manifests history

  # Show what a version changes
  capi-manifests history --diff 4.22.1-2

  # Count the permissions that become wider with each version
  capi-manifests history -o json | jq '.versions[] | {name, wider: .differences.verdict.widening}'`

// historyOptions are the flags of history.
type historyOptions struct {
	cluster cli.ClusterFlags
	format  cli.Output
	// diff is the version whose differences are shown; empty for the list.
	diff  string
	full  bool
	color term.ColorMode
}

func newHistory() *cobra.Command {
	options := &historyOptions{}
	cmd := &cobra.Command{
		Use:               "history",
		Short:             "List the versions installed in a cluster",
		Long:              historyLong,
		Example:           historyExample,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return options.run(cmd) },
	}
	options.cluster.Register(cmd)
	options.format.Register(cmd)
	cmd.Flags().StringVar(&options.diff, "diff", "", "`version` whose differences from the version before are shown, such as 4.22.1-2")
	cmd.Flags().BoolVar(&options.full, "full", false, "show folded changes of --diff too")
	_ = cmd.RegisterFlagCompletionFunc("diff", cobra.NoFileCompletions) // the flag exists
	cli.RegisterColor(cmd, &options.color, "text")
	return cmd
}

func (o *historyOptions) run(cmd *cobra.Command) error {
	if o.full && o.diff == "" {
		return cli.WrongUsage(errors.New("--full requires --diff"))
	}
	cluster, err := o.cluster.Connect()
	if err != nil {
		return err
	}
	snapshot, err := cluster.Snapshot(cmd.Context())
	if err != nil {
		return err
	}
	stored, err := cluster.Versions(cmd.Context())
	if err != nil {
		return err
	}
	recorded, err := cluster.History(cmd.Context())
	if err != nil {
		return err
	}
	versions := history.New(rollout.New(snapshot), stored, recorded)
	if o.diff != "" {
		if versions, err = versions.Only(o.diff); err != nil {
			return &cli.NotFoundError{Err: err}
		}
	}
	if o.format != cli.Table || o.diff == "" {
		return o.format.Write(cmd.OutOrStdout(), versions, versions.Table)
	}
	return writeDifferences(cmd, *versions.Versions[0].Differences, diffreport.Text, o.full, o.color)
}
