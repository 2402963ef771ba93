// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command realnode runs a cluster with one node until it is interrupted, in namespaces of its own.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/capi-installer/capi-installer/test/realnode"
)

func main() {
	dir, err := realnode.Enter(func(ctx context.Context, dir string) error {
		return realnode.Build(ctx, dir, os.Stderr)
	})
	if err == nil {
		err = run(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "realnode:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	began := time.Now()
	node, err := realnode.Start(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Printf(`The node is Ready after %.1f s. Inspect it until you press Ctrl-C:
nsenter --target $(cat %s) --net --mount %s kubectl --kubeconfig=%s get nodes
The logs are in %s.
`, time.Since(began).Seconds(), filepath.Join(dir, realnode.PIDFile), filepath.Join(dir, "controlplane"), node.Cluster.Kubeconfig, node.Logs())
	<-ctx.Done()
	return node.Stop()
}
