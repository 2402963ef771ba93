// SPDX-License-Identifier: Apache-2.0

// Command capi-installer installs the Cluster API providers of a release in the
// cluster that it runs in, and keeps them as the release has them.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	_ "golang.org/x/crypto/x509roots/fallback" // the image holds no certificates of its own
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	boundMemory()
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "capi-installer:", err)
		os.Exit(1)
	}
}

// boundMemory has what is not needed any more given back early: the objects of a
// run are large and short-lived, and the program is at rest most of the time. What
// GOGC and GOMEMLIMIT say in the environment comes first.
func boundMemory() {
	const softLimit = 80 << 20 // bytes, beside the 35 MiB of the program itself
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit)
	}
}
