// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/precheck"
	"github.com/capi-installer/capi-installer/extractor"
)

const checkLong = `Test a cluster for the installer: the version of Kubernetes, the APIs that it needs, and, with a dry run of each object
of deploy/kubernetes, or of manifests in OpenShift, your permissions and the admission policies of the cluster. Objects in namespaces
that do not exist yet cannot be checked. "plan --against" checks the objects of providers.

The manifest of each image of --images-json, or of the installed images.json with its overrides, is read from its registry or mirrors,
all at once and for at most 20 seconds. The requests are sent from this machine, with the configuration of registries that the installer reads
in the cluster, or with the one of this machine, as of podman, if you cannot read it. The network of a pod can differ.

Without --pre, the installer itself is checked afterwards, as by status. Nothing is written. The exit code is 1 if a check fails.`

const checkExample = `  # Before the installation, with the images that it will read
  capi-manifests check --pre --images-json images.json

  # Afterwards
  capi-manifests check`

// checkOptions are the flags of check.
type checkOptions struct {
	cluster cli.ClusterFlags
	format  cli.Output
	pre     bool
	// imagesJSON is a file; empty for the installed one.
	imagesJSON     string
	skipRegistries bool
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
	options.cluster.Register(cmd)
	options.format.Register(cmd)
	cmd.Flags().BoolVar(&options.pre, "pre", false, "test only whether the installer can be installed")
	cmd.Flags().StringVar(&options.imagesJSON, "images-json", "", "`file` with the images to read (default the installed one, without --pre); - is stdin")
	cmd.Flags().BoolVar(&options.skipRegistries, "skip-registries", false, "send no request to registries")
	_ = cmd.MarkFlagFilename("images-json", "json") // the flag exists
	return cmd
}

func (o *checkOptions) run(cmd *cobra.Command) error {
	if o.skipRegistries && o.imagesJSON != "" {
		return cli.WrongUsage(errors.New("--images-json cannot be used with --skip-registries"))
	}
	config, err := o.cluster.Config()
	if err != nil {
		return err
	}
	server, err := apiserver.Connect(config)
	if err != nil {
		return err
	}
	cluster, err := o.cluster.Connect()
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
	if err != nil {
		return err
	}
	release := precheck.Release{File: o.imagesJSON, Stdin: cmd.InOrStdin()}
	if !o.pre {
		snapshot, err := cluster.Snapshot(cmd.Context())
		if err == nil {
			release.Installed = &snapshot
		}
		checks = append(checks, precheck.Installer(snapshot, err))
	}
	if !o.skipRegistries {
		registries, err := precheck.Registries(cmd.Context(), cluster, release)
		if err != nil {
			return err
		}
		checks = append(checks, registries...)
	}
	if err := o.format.Write(cmd.OutOrStdout(), checks, func(out *bytes.Buffer) { precheck.Table(out, checks) }); err != nil {
		return err
	}
	return precheck.Result(checks)
}
