// SPDX-License-Identifier: Apache-2.0

// Command capi-manifests is the tool of provider authors and release engineers: it
// generates bundles from the manifests of providers, packs them into images,
// validates both, and shows the components that a release installs on a cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

// stopSignals returns the signals that stop the program and start its cleanup. SIGHUP is one of
// them unless it is ignored, as under nohup.
func stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

func main() {
	collectRarely()
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	context.AfterFunc(ctx, stop) // a second signal has its default effect and ends the program
	code := command.Run(ctx, version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
