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

// ending are the signals at which what is begun is tidied up: also that of a terminal that is
// closed, unless nohup says that this does not matter.
func ending() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), ending()...)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends what does not heed the first one
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
