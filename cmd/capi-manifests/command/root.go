// SPDX-License-Identifier: Apache-2.0

// Package command contains the commands of capi-manifests, one file each: flags,
// calls and output.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/internal/buildinfo"
)

const rootLong = `capi-manifests builds and reads the images that capi-installer installs
Cluster API providers from. Such an image holds a bundle:

  /capi-manifests/metadata.json     name, type and version of the provider, digest of the manifests
  /capi-manifests/manifests.yaml    objects of the provider

  generate   kustomize directory  ->  bundle
  transforms transform            ->  how and why generate edits the objects for OpenShift
  pack       bundle               ->  image, in a registry, an OCI layout or an archive
  sign       image                ->  sigstore signature beside it
  validate   bundle or image      ->  violated rules
  explain    rule                 ->  reason, fix and examples
  extension  server               ->  violated rules of Runtime Extensions; hooks and their schemas
  inspect    image                ->  contents
  extract    image                ->  bundle
  images     list of images       ->  images.json, with digests
  mirror     images.json          ->  its images in another registry, or in a directory
  plan       images.json          ->  components, phases and objects that a cluster would install
  settings   bundles              ->  variables, feature gates and Deployments that can be set in a cluster
  tree       images.json or image ->  the same, down to each object
  diff       two of these         ->  changes, and who is affected
  rbac       bundles              ->  the least role that can install them
  check      cluster              ->  whether the installer can be installed, and works
  status     cluster              ->  installed version, progress of the rollout, next steps
  history    cluster              ->  versions that were installed, and their changes
  rollback   cluster              ->  an earlier version requested again
  pause, resume, override, unmanage   change the ClusterAPI object, with the command of kubectl

Images are pulled as podman, skopeo and oc pull them: with the mirrors of
registries.conf, the credentials of "podman login" or "docker login", the certificates in
certs.d and the proxies of the environment. No container engine is needed.

Data is written to stdout, everything else to stderr. Exit codes:

  0  success
  1  findings or differences: a bundle violates a rule, or a release lacks a provider or has it twice
  2  invalid command line
  3  registry or I/O error; a retry may succeed
  4  invalid bundle, image or images.json; a retry does not help

SIGINT, SIGTERM and, unless it is ignored, SIGHUP stop a command: it removes unfinished files,
and the exit code is 128 and the number of the signal: 130 after Ctrl-C. A second signal ends the program immediately.`

const rootExample = `  # From a provider's repository to an image
  capi-manifests generate config/default --provider-name cluster-api-provider-aws \
    --provider-type infrastructure --provider-version v2.10.0 --platform AWS \
    --image-name registry.ci.openshift.org/openshift:aws-cluster-api-controllers
  capi-manifests pack capi-manifests --base quay.io/me/capa:v2.10.0 --push quay.io/me/capa:bundled

  # Show the components that a release installs on AWS
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0`

// Run runs the command line args of a program version and returns the exit code.
func Run(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := New(version)
	root.SetArgs(cli.DoubleDashes(root, args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := cli.ExecuteUntil(ctx, root)
	if err == nil {
		return cli.ExitGood
	}
	code := cli.ExitCode(err)
	if stopped := context.Cause(ctx); stopped != nil && (code == cli.ExitIO || errors.Is(err, stopped)) { // the errors of interrupted operations carry no information
		err, code = stopped, cli.ExitCode(stopped)
	}
	cli.Report(stderr, err)
	if cli.WantsHelp(err) {
		cli.Report(stderr, fmt.Errorf("see %s --help", cmd.CommandPath()))
	}
	return code
}

// New returns the command with its subcommands.
func New(version string) *cobra.Command {
	v := buildinfo.Of(version)
	root := &cobra.Command{
		Use:           "capi-manifests",
		Short:         "Build and read images of Cluster API providers",
		Long:          rootLong,
		Example:       rootExample,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       v.String(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: calledAs(os.Args[0])},
		Args:          cli.KnownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.DisplayName}} {{.Version}}\n")
	root.SetFlagErrorFunc(cli.FlagError)
	root.AddCommand(newGenerate(), newTransforms(), newPack(), newSign(), newInspect(), newExtract(), newValidate(v.Version), newExplain(), newExtension(v.Version), newImages(), newMirror(), newPlan(), newSettings(), newTree(), newDiff(), newRBAC(), newCheck(), newStatus(), newHistory(), newVersion(v))
	root.AddCommand(newChanges()...)
	return root
}

// PluginName is the name that kubectl and oc look for; they run it as "kubectl capi-manifests".
const PluginName = "kubectl-capi_manifests"

// calledAs returns the name that users call the program by.
func calledAs(program string) string {
	if filepath.Base(program) == PluginName {
		return "kubectl capi-manifests"
	}
	return "capi-manifests"
}
