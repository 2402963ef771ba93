// SPDX-License-Identifier: Apache-2.0

// Command controlplane builds and runs the Kubernetes control plane of the tests
// by hand.
//
//	controlplane build           # prints the path of the binary
//	controlplane up              # prints the path of a kubeconfig, runs until interrupted
//	controlplane kubectl get ns  # the kubectl of that binary
//	controlplane kubernetes 1.34 # prints the path of a binary for CONTROLPLANE_KUBERNETES
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/capi-installer/capi-installer/test/controlplane"
)

const usage = `usage: controlplane COMMAND

  build            build the control plane, if need be, and print the binary's path
  up [--dir DIR] [--until-eof]
                   start one, print the path of its kubeconfig, run until interrupted, or
                   until standard input ends
  kubectl ARGS...  run the kubectl that is built in
  kubernetes MINOR build the API server, the controller manager and the scheduler of another minor
                   of Kubernetes, such as 1.34, and print the binary's path for
                   CONTROLPLANE_KUBERNETES

Run it in a module that requires test/controlplane, such as this project. CONTROLPLANE_BINARY names
a ready binary to use instead of building one. Without Go, it uses the binary that was used last:
capi-installer/controlplane/latest/controlplane in the user's cache folder.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends it at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err == nil {
		return
	}
	if !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
	}
	os.Exit(1)
}

func run(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	if len(arguments) == 0 {
		fmt.Fprint(stderr, usage)
		return flag.ErrHelp
	}
	switch arguments[0] {
	case "build":
		return build(ctx, stdout, stderr)
	case "up":
		return up(ctx, arguments[1:], stdout, stderr)
	case "kubectl":
		return kubectl(ctx, arguments[1:], stderr)
	case "kubernetes":
		return kubernetes(ctx, arguments[1:], stdout, stderr)
	case "help", "-h", "--help":
		fmt.Fprint(stdout, usage)
		return nil
	default:
		fmt.Fprint(stderr, usage)
		return fmt.Errorf("unknown command %q", arguments[0])
	}
}

func build(ctx context.Context, stdout, stderr io.Writer) error {
	binary, err := controlplane.Build(ctx, stderr)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, binary)
	return nil
}

func kubernetes(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	if len(arguments) != 1 {
		return errors.New("kubernetes takes one argument, a minor version such as 1.34")
	}
	binary, err := controlplane.BuildKubernetes(ctx, arguments[0], stderr)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, binary)
	return nil
}

func up(ctx context.Context, arguments []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "", "the cluster's `folder`, which stays; default: a temporary one")
	untilEOF := flags.Bool("until-eof", false, "run until standard input ends, so that it ends with the program at the other end")
	if err := flags.Parse(arguments); err != nil {
		return flag.ErrHelp // Parse has said it
	}
	if *untilEOF {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // an error ends it too
			stop()
		}()
	}
	began := time.Now()
	cluster, err := controlplane.Start(ctx, controlplane.Options{Dir: *dir, Progress: stderr})
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, cluster.Kubeconfig)
	fmt.Fprintf(stderr, "ready after %s; interrupt to stop\n", time.Since(began).Round(100*time.Millisecond))
	return errors.Join(cluster.Wait(ctx), cluster.Stop())
}

// kubectl becomes kubectl: the terminal and the exit code are its own.
func kubectl(ctx context.Context, arguments []string, stderr io.Writer) error {
	binary, err := controlplane.Build(ctx, stderr)
	if err != nil {
		return err
	}
	err = syscall.Exec(binary, append([]string{"kubectl"}, arguments...), os.Environ())
	return fmt.Errorf("running kubectl: %w", err)
}
