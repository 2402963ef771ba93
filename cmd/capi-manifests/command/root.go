// SPDX-License-Identifier: Apache-2.0

// Package command contains the commands of capi-manifests, one file each: flags,
// calls and output.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/internal/buildinfo"
)

const rootLong = `capi-manifests builds and reads the images that capi-installer installs Cluster API providers from, and shows and changes
installations. Images are pulled as podman, skopeo and oc pull them, without a container engine.

Data is written to stdout, everything else to stderr. Exit codes; those of status differ:
  0  success
  1  findings or differences: a bundle violates a rule, or a release lacks a provider or has it twice
  2  invalid command line
  3  registry or I/O error, such as a missing file; a retry may succeed
  4  invalid bundle, image or images.json; a retry does not help

SIGINT, SIGTERM and SIGHUP stop a command, with the exit code 128 and the number of the signal, such as 130; a second signal at once.`

const rootExample = `  # Show the components that a release installs on AWS
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0`

// Run runs the command line args of a program version and returns the exit code.
func Run(ctx context.Context, version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := New(version)
	root.SetArgs(cli.DoubleDashes(root, args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.InitDefaultCompletionCmd() // that accepts unknown shells
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args, completion.RunE = cli.KnownCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	cmd, err := cli.ExecuteUntil(ctx, root)
	if err == nil {
		return cli.ExitGood
	}
	code := cli.ExitCode(err)
	if stopped := context.Cause(ctx); stopped != nil && (code == cli.ExitIO || errors.Is(err, stopped)) { // the errors of interrupted operations carry no information
		err, code = stopped, cli.ExitCode(stopped)
	}
	cli.Report(stderr, ofFlag(cmd, err))
	if cli.WantsHelp(err) {
		cli.Report(stderr, fmt.Errorf("see %s --help", cmd.CommandPath()))
	}
	return code
}

// ofFlag adds the flag to an error about the file that it names.
func ofFlag(cmd *cobra.Command, err error) error {
	if failed, is := errors.AsType[*fs.PathError](err); is {
		cmd.Flags().Visit(func(given *pflag.Flag) {
			if given.Value.String() == failed.Path && !strings.Contains(err.Error(), "--"+given.Name) {
				err = fmt.Errorf("%w: correct the path in --%s", err, given.Name)
			}
		})
	}
	return err
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
	root.AddGroup(&cobra.Group{ID: cluster, Title: "Commands for administrators of a cluster:"}, &cobra.Group{ID: author, Title: "Commands for authors of provider images:"}, &cobra.Group{ID: engineer, Title: "Commands for release engineers:"})
	root.SetVersionTemplate("{{.DisplayName}} {{.Version}}\n")
	root.SetFlagErrorFunc(cli.FlagError)
	addGroup(root, cluster, newCheck(), newStatus(), newHistory())
	for _, c := range changes {
		addGroup(root, cluster, c.command())
	}
	addGroup(root, author, newGenerate(), newTransforms(), newValidate(v.Version), newExplain(), newPack(), newSign(), newInspect(), newExtract())
	addGroup(root, engineer, newImages(), newMirror(), newPlan(), newSettings(), newDiff(), newRBAC())
	root.AddCommand(newVersion(v))
	root.SetHelpCommand(newHelp(root))
	return root
}

// The groups of commands in the help.
const (
	cluster  = "cluster"
	author   = "author"
	engineer = "release"
)

// addGroup adds commands to a group.
func addGroup(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.GroupID = group
	}
	root.AddCommand(commands...)
}

// newHelp returns the command help, that rejects unknown commands.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Show the help of a command", Long: "Show the help of a command.", Example: "  capi-manifests help plan", Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err == nil && len(rest) == 0 {
				found.InitDefaultHelpFlag()
				return found.Help()
			}
			return fmt.Errorf("%w; capi-manifests --help lists all commands", cli.KnownCommand(found, rest))
		},
	}
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

func newVersion(v buildinfo.Version) *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show version information",
		Long:    "Show the version of the program; with -o json also the commit and the versions of all modules in it.",
		Example: "  capi-manifests version\n  capi-manifests version -o json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return format.Write(cmd.OutOrStdout(), v, func(w *bytes.Buffer) {
				fmt.Fprintln(w, cmd.Root().DisplayName(), v)
			})
		},
	}
	format.Register(cmd)
	return cmd
}
