// SPDX-License-Identifier: Apache-2.0

// Command capi-installer installs the Cluster API providers of a release in the
// cluster that it runs in, and reverts external changes to them.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	_ "golang.org/x/crypto/x509roots/fallback" // the image contains no certificates
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	boundMemory()
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "capi-installer:", err)
		os.Exit(1)
	}
}

// boundMemory returns memory to the system early, because the objects of a
// reconcile are large and short-lived, and the program is idle most of the time.
// GOGC and GOMEMLIMIT in the environment take precedence.
//
// A rollout of sixteen real providers peaks at 109 MiB resident on a busy machine,
// where the heap exceeds the soft limit by some MiB. It takes 36 s of CPU in 100 s,
// partly for garbage collection near the limit.
func boundMemory() {
	const softLimit = 68 << 20 // bytes, in addition to the 36 MiB of the program itself
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit)
	}
}
