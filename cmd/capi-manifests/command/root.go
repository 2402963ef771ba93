// SPDX-License-Identifier: Apache-2.0

// Package command contains the commands of capi-manifests, one file each: flags,
// calls and output.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `capi-manifests builds and reads the images from which capi-installer installs
Cluster API providers. Such an image holds a bundle:

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
  plan       images.json          ->  components, phases and objects that a cluster would install
  tree       images.json or image ->  the same, down to each object
  diff       two of these         ->  changes, and who is affected
  rbac       bundles              ->  the least role that can install them
  status     cluster              ->  installed version, progress of the rollout, next steps
  history    cluster              ->  stored versions and their differences

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
and the exit code is 3. A second signal ends the program immediately.`

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
	root.SetArgs(doubleDashes(root, args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := executeUntil(ctx, root)
	if err == nil {
		return ExitGood
	}
	code := exitCode(err)
	if code == ExitIO && ctx.Err() != nil { // the errors of interrupted operations carry no information
		err = fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	report(stderr, err)
	if wantsHelp(err) {
		report(stderr, fmt.Errorf("see %s --help", cmd.CommandPath()))
	}
	return code
}

// cleanupGrace is the time that a command has for its cleanup after the end of its
// context.
const cleanupGrace = 15 * time.Second

// executeUntil executes a command. If the command still runs some time after the
// end of ctx, because it is blocked in a call without a context, executeUntil
// returns the cause, and the command ends with the program.
func executeUntil(ctx context.Context, root *cobra.Command) (cmd *cobra.Command, err error) {
	ended := make(chan struct{})
	var executed *cobra.Command
	var failed error
	go func() {
		defer close(ended)
		executed, failed = root.ExecuteContextC(ctx)
	}()
	select {
	case <-ended:
		return executed, failed
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return executed, failed
	case <-time.After(cleanupGrace):
		return root, context.Cause(ctx)
	}
}

// New returns the command with its subcommands.
func New(version string) *cobra.Command {
	v := versionOf(version)
	root := &cobra.Command{
		Use:           "capi-manifests",
		Short:         "Build and read images of Cluster API providers",
		Long:          rootLong,
		Example:       rootExample,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       v.String(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: calledAs(os.Args[0])},
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.DisplayName}} {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newGenerate(), newTransforms(), newPack(), newSign(), newInspect(), newExtract(), newValidate(v.Version), newExplain(), newExtension(v.Version), newImages(), newPlan(), newTree(), newDiff(), newRBAC(), newStatus(), newHistory(), newVersion(v))
	return root
}

// PluginName is the name by which kubectl and oc find the program, and run it as "kubectl capi-manifests".
const PluginName = "kubectl-capi_manifests"

// calledAs returns the name by which users call the program.
func calledAs(program string) string {
	if filepath.Base(program) == PluginName {
		return "kubectl capi-manifests"
	}
	return "capi-manifests"
}

// knownCommand rejects unknown commands and suggests similar ones.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if suggestions := cmd.SuggestionsFor(args[0]); len(suggestions) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(suggestions, " or "))
	}
	return &usageError{err}
}

// oneArg requires exactly one argument. usage is its name and description: "SOURCE,
// an image or a directory".
func oneArg(usage string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			name, is, _ := strings.Cut(usage, ", ")
			return &usageError{fmt.Errorf("%s is required: %s", name, is)}
		case len(args) > 1:
			return &usageError{fmt.Errorf("accepts 1 arg(s), received %d: %s; want %s", len(args), strings.Join(args, " "), usage)}
		}
		return nil
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("accepts no arguments, received %s", strings.Join(args, " "))}
	}
	return nil
}

// required returns an error for every flag of names that is empty.
func required(cmd *cobra.Command, names ...string) error {
	var errs []error
	for _, name := range names {
		if flag := cmd.Flag(name); flag.Value.String() == "" {
			_, usage := pflag.UnquoteUsage(flag)
			errs = append(errs, fmt.Errorf("required flag --%s not set: %s", name, usage))
		}
	}
	return wrongUsage(errs...)
}
