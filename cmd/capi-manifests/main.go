// SPDX-License-Identifier: Apache-2.0

// Command capi-manifests is the tool of those who build provider images and
// releases: it makes bundles of providers' manifests, puts them into images,
// looks into images, and tells what a release would install on a cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends what does not heed the first one
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
