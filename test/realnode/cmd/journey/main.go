// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command journey demonstrates the life of a management cluster on a real node: the operator runs as its pod, the providers
// are their real programs, and eight Machines survive an upgrade. Where this machine cannot run containers, they are processes;
// package realnode names what is missing for both. make demo REAL=1 builds and runs it in this repository.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/test/realnode"
	"github.com/capi-installer/capi-installer/test/realnode/journey"
)

func main() {
	dir, err := realnode.Enter(func(ctx context.Context, dir string) error {
		if kind, _ := realnode.Choose(); kind == realnode.Processes {
			fmt.Fprintln(os.Stderr, "The node runs processes instead of containers.")
			if missing := realnode.Why(); missing != nil {
				fmt.Fprintf(os.Stderr, "For containers, this machine lacks:\n%v\n", missing)
			}
		}
		return journey.Prepare(ctx, dir, os.Stderr)
	})
	if err == nil {
		err = run(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nThe demonstration failed:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	log.SetLogger(logr.Discard()) // the screen is for the demonstration
	began := time.Now()
	report := func(format string, arguments ...any) {
		fmt.Printf("%6.1fs    %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, arguments...))
	}
	kind, err := realnode.Choose()
	if err != nil {
		return err
	}
	fmt.Printf("%6.1fs  Starting a control plane, a node with %s and a registry\n", 0.0, kind)
	j, err := journey.Start(ctx, dir, report)
	if err != nil {
		return err
	}
	for _, step := range j.Steps() {
		if step.Long {
			continue
		}
		fmt.Printf("\n%6.1fs  %s\n", time.Since(began).Seconds(), step.Title)
		if err := step.Run(ctx); err != nil {
			return errors.Join(err, j.Stop())
		}
	}
	return j.Stop()
}
