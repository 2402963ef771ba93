// SPDX-License-Identifier: Apache-2.0

// Command capi-extension checks servers of Runtime Extensions against the rules of the Runtime SDK, and lists the Runtime Hooks
// of Cluster API. docs/runtime-extensions.md describes it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes, as of capi-manifests. Errors of unknown origin, such as an unreachable server, are exitIO.
const (
	exitFindings = 1
	exitUsage    = 2
	exitIO       = 3
	exitInvalid  = 4
)

// codeError is an error with an exit code.
type codeError struct {
	error
	code int
}

func (e codeError) Unwrap() error { return e.error }

// usage returns an error of the command line; nil for nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return codeError{err, exitUsage}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// run runs a command line and returns the exit code.
func run(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(os.Stderr, "capi-extension:", printable(strings.TrimSpace(line)))
	}
	if coded, is := errors.AsType[codeError](err); is {
		return coded.code
	}
	return exitIO
}

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

func newRoot() *cobra.Command {
	if build, found := debug.ReadBuildInfo(); found && version == "" {
		version = build.Main.Version
	}
	root := &cobra.Command{
		Use:           "capi-extension",
		Short:         "Check Runtime Extensions of Cluster API",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("unknown command %q for \"capi-extension\": want test or hooks", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.AddCommand(newTest(), newHooks())
	return root
}
