// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/trace"
)

const traceLong = `Find the origin of an installed object: the version and component that contain it, the image of the component, and
the file in the image with the position of the object. "capi-manifests extract IMAGE" writes that file.

KIND is a word that kubectl accepts: a kind, a resource or a short name, with the group if it is ambiguous. trace reads the
ClusterAPI object and the revision ConfigMaps, and never writes. The exit code is 1 if no stored version contains the object.`

const traceExample = `  # Find the image and the file of a CRD
  capi-manifests trace crd clusters.cluster.x-k8s.io

  # The same of an object in a namespace
  capi-manifests trace deployment capi-controller-manager --namespace openshift-cluster-api -o json`

// traceOptions are the flags of trace.
type traceOptions struct {
	cluster   cli.ClusterFlags
	format    cli.Output
	namespace string
}

func newTrace() *cobra.Command {
	options := &traceOptions{}
	cmd := &cobra.Command{
		Use:               "trace KIND NAME",
		Short:             "Find the image and file of an installed object",
		Long:              traceLong,
		Example:           traceExample,
		Args:              cli.ExactArgs("KIND", "NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return options.run(cmd, args[0], args[1]) },
	}
	options.cluster.Register(cmd)
	options.format.Register(cmd)
	cmd.Flags().StringVarP(&options.namespace, "namespace", "n", "", "`namespace` of the object (default all namespaces)")
	return cmd
}

func (o *traceOptions) run(cmd *cobra.Command, kind, name string) error {
	cluster, err := o.cluster.Connect()
	if err != nil {
		return err
	}
	snapshot, err := cluster.Snapshot(cmd.Context())
	if err != nil {
		return err
	}
	kinds, err := cluster.Kinds(kind)
	if err != nil {
		return err
	}
	if len(kinds) == 0 {
		return cli.WrongUsage(fmt.Errorf("the cluster has no kind %q; kubectl api-resources lists all", kind))
	}
	stored, err := cluster.Versions(cmd.Context())
	if err != nil {
		return err
	}
	origins := trace.Origins(trace.Query{Kinds: kinds, Namespace: o.namespace, Name: name}, stored, rollout.New(snapshot))
	if len(origins) == 0 {
		return &cli.NotFoundError{Err: errors.New(kinds[0].Kind + " " + name + " is in no stored version: capi-installer did not install it")}
	}
	return o.format.Write(cmd.OutOrStdout(), origins, func(out *bytes.Buffer) { trace.Text(out, origins) })
}
