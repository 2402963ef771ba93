// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/precheck"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/extractor"
)

const checkLong = `Test a cluster for the installer: the version of Kubernetes, the APIs that it needs, and, with a dry run of each object
of deploy/kubernetes, or of manifests in OpenShift, your permissions and the admission policies of the cluster. Objects in namespaces
that do not exist yet cannot be checked. "plan --against" checks the objects of providers, and reads their
images from the registries as this machine reaches them.

Without --pre, the installer itself is checked afterwards, as by status. Nothing is written. The exit code is 1 if a check fails.`

const checkExample = `  # Before the installation
  capi-manifests check --pre

  # Afterwards
  capi-manifests check`

// checkOptions are the flags of check.
type checkOptions struct {
	cluster clusterFlags
	format  cli.Output
	pre     bool
}

func newCheck() *cobra.Command {
	options := &checkOptions{}
	cmd := &cobra.Command{
		Use:               "check",
		Short:             "Test a cluster for the installer",
		Long:              checkLong,
		Example:           checkExample,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return options.run(cmd) },
	}
	options.cluster.register(cmd)
	options.format.Register(cmd)
	cmd.Flags().BoolVar(&options.pre, "pre", false, "test only whether the installer can be installed")
	return cmd
}

func (o *checkOptions) run(cmd *cobra.Command) error {
	config, err := o.cluster.config()
	if err != nil {
		return err
	}
	server, err := apiserver.Connect(config, false)
	if err != nil {
		return err
	}
	cluster, err := o.cluster.connect()
	if err != nil {
		return err
	}
	openShift, err := cluster.IsOpenShift(cmd.Context())
	if err != nil {
		return err
	}
	profile := extractor.Kubernetes
	if openShift {
		profile = extractor.OpenShift
	}
	objects, err := shippedObjects(profile)
	if err != nil {
		return err
	}
	checks, err := precheck.Run(cmd.Context(), server, objects)
	if err == nil && !o.pre {
		var own precheck.Check
		own, err = checkInstaller(cmd.Context(), cluster)
		checks = append(checks, own)
	}
	if err != nil {
		return err
	}
	if err := o.format.Write(cmd.OutOrStdout(), checks, func(out *bytes.Buffer) { precheck.Table(out, checks) }); err != nil {
		return err
	}
	return precheck.Result(checks)
}

// checkInstaller checks the installer itself.
func checkInstaller(ctx context.Context, cluster *installed.Cluster) (precheck.Check, error) {
	snapshot, err := cluster.Snapshot(ctx)
	if err != nil {
		return precheck.Check{}, err
	}
	report := rollout.New(snapshot)
	verdicts := map[rollout.State]precheck.Verdict{rollout.AtRest: precheck.OK, rollout.RollingOut: precheck.Unknown, rollout.Blocked: precheck.Failed}
	return precheck.Check{Name: "installer", Verdict: verdicts[report.State], Details: report.Summary}, nil
}
