// SPDX-License-Identifier: Apache-2.0

// Command capi-manifests is the tool of provider authors and release engineers: it
// generates bundles from the manifests of providers, packs them into images,
// validates both, and shows the components that a release installs on a cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/command"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
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
	if os.Getenv("GOGC") == "" { // most commands end before a collection is worth its time
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(512 << 20) // with more live objects, memory matters more than time
	}
	log.SetLogger(logr.Discard()) // the webhooks of Cluster API log
	os.Exit(command.Run(untilSignal(), version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// untilSignal returns a context that ends at the first signal, with it as the cause. A second signal has its default effect and
// ends the program.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	received := make(chan os.Signal, 1)
	signal.Notify(received, stopSignals()...)
	go func() {
		first := <-received
		signal.Stop(received)
		cancel(&cli.SignalError{Signal: first})
	}()
	return ctx
}
