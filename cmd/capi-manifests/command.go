// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `capi-manifests makes and reads the images from which capi-installer installs
Cluster API providers. Such an image holds a bundle:

  /capi-manifests/metadata.json     what the provider is, and the digest of the manifests
  /capi-manifests/manifests.yaml    the provider's objects

  generate   kustomize directory  ->  bundle
  transforms transform            ->  how generate edits the objects for OpenShift, and why
  pack       bundle               ->  image, in a registry, an OCI layout or an archive
  validate   bundle, or image     ->  what is wrong with it
  explain    rule                 ->  why it is there, and how to keep it
  inspect    image                ->  what is in it
  extract    image                ->  bundle
  plan       images.json          ->  what a cluster would install
  tree       images.json, image   ->  the same, down to each object
  diff       two of any of these  ->  what changed, and whom it hurts
  rbac       bundles              ->  the least role with which they can be installed

Images are read from where podman, skopeo and oc would pull them: with the mirrors of
registries.conf, the credentials of "podman login" or "docker login", the certificates in
certs.d and the proxies of the environment. No container engine is needed.

Data goes to stdout, everything else to stderr. Exit codes:

  0  good
  1  findings: a bundle breaks a rule, or in a release a provider is missing or comes twice
  2  the command line is wrong
  3  a registry or a file could not be read or written; trying again may help
  4  a bundle, an image or images.json is invalid; trying again does not help`

const rootExample = `  # From a provider's repository to an image
  capi-manifests generate config/default --provider-name cluster-api-provider-aws \
    --provider-type infrastructure --provider-version v2.10.0 --platform AWS \
    --image-name registry.ci.openshift.org/openshift:aws-cluster-api-controllers
  capi-manifests pack capi-manifests --base quay.io/me/capa:v2.10.0 --push quay.io/me/capa:bundled

  # What would a release install on AWS?
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0`

// run runs the command and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitGood
	}
	code := exitCode(err)
	if code == exitIO && ctx.Err() != nil { // what was begun fails in many ways then, which say nothing
		err = fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	report(stderr, err)
	return code
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "capi-manifests",
		Short:         "Make and read the images from which Cluster API providers are installed",
		Long:          rootLong,
		Example:       rootExample,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       readVersion().String(),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: calledAs(os.Args[0])},
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.DisplayName}} {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newGenerate(), newTransforms(), newPack(), newInspect(), newExtract(), newValidate(), newExplain(), newPlan(), newTree(), newDiff(), newRBAC(), newVersion())
	return root
}

// pluginName is the name by which kubectl and oc find the program, and run it as "kubectl capi-manifests".
const pluginName = "kubectl-capi_manifests"

// calledAs is what users call the program.
func calledAs(program string) string {
	if filepath.Base(program) == pluginName {
		return "kubectl capi-manifests"
	}
	return "capi-manifests"
}

// knownCommand refuses words that are no command, and suggests one.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("there is no command %q", args[0])
	cmd.SuggestionsMinimumDistance = 2
	if suggestions := cmd.SuggestionsFor(args[0]); len(suggestions) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(suggestions, " or "))
	}
	return &usageError{cmd.CommandPath(), err}
}

// oneArg asks for exactly one argument, which what names: "SOURCE, an image or a directory".
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			name, is, _ := strings.Cut(what, ", ")
			return &usageError{cmd.CommandPath(), fmt.Errorf("%s is missing: %s", name, is)}
		case len(args) > 1:
			return &usageError{cmd.CommandPath(), fmt.Errorf("one argument is wanted, %s; there are %d: %s", what, len(args), strings.Join(args, " "))}
		}
		return nil
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{cmd.CommandPath(), fmt.Errorf("no arguments are wanted; there are %s", strings.Join(args, " "))}
	}
	return nil
}

// required returns an error for every flag of names that is empty.
func required(cmd *cobra.Command, names ...string) error {
	var errs []error
	for _, name := range names {
		if flag := cmd.Flag(name); flag.Value.String() == "" {
			_, usage := pflag.UnquoteUsage(flag)
			errs = append(errs, fmt.Errorf("--%s is missing: %s", name, usage))
		}
	}
	return wrongUsage(cmd, errs...)
}
