// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/history"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
)

const historyLong = `List the versions of Cluster API that were installed in a cluster, newest first: when each became the desired version, the time until
it was installed or replaced, the result, and the changed components.

The installer records the last 20 versions in ConfigMap capi-installer-history, also after their objects are gone, with their images.json.
"capi-manifests diff" compares two of them. history reads the ClusterAPI object and the ConfigMaps in the namespace of the installer, as
ClusterRole cluster-reader of OpenShift, or view of other clusters, allows, and never writes.`

const historyExample = `  # List the versions
  capi-manifests history

  # The images.json of each version, such as for capi-manifests diff OLD NEW
  capi-manifests history -o json | jq -r '.versions[] | {name, imagesJSON}'`

func newHistory() *cobra.Command {
	var flags cli.ClusterFlags
	var format cli.Output
	cmd := &cobra.Command{
		Use:               "history",
		Short:             "List the versions installed in a cluster",
		Long:              historyLong,
		Example:           historyExample,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := flags.Connect()
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
			versions := history.New(rollout.New(snapshot), stored, snapshot.History)
			return format.Write(cmd.OutOrStdout(), versions, versions.Table)
		},
	}
	flags.Register(cmd)
	format.Register(cmd)
	return cmd
}
