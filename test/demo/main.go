// SPDX-License-Identifier: Apache-2.0

// Command demo demonstrates the installation on this machine: it builds images of real providers, pushes them to a
// registry, installs them with the real capi-installer in a real Kubernetes control plane, and rolls out a second
// release over the first. Then another actor edits and deletes installed objects, and the demonstration rolls out a
// release that cannot be installed, and uninstalls all objects.
//
// It needs the programs of `make build` and controlplane in its own folder; `make demo` builds all of them. All servers
// listen on loopback, and all data is removed at the end. With --keep, nothing is uninstalled or removed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	keep := flag.Bool("keep", false, "keep the cluster running until interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program immediately
	if err := run(ctx, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "\nThe demonstration failed:", err)
		os.Exit(1)
	}
}

// run creates a folder for all output of the demonstration, and removes it.
func run(ctx context.Context, keep bool) error {
	dir, err := os.MkdirTemp("", "capi-installer-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	d := newDemo(filepath.Dir(self), dir, &screen{out: os.Stdout, start: time.Now()})
	d.keep = keep
	defer d.stop()
	if err := d.run(ctx); err != nil {
		return d.explain(err)
	}
	if keep {
		return d.linger(ctx)
	}
	return nil
}
