// SPDX-License-Identifier: Apache-2.0

// Command capi-installer installs the Cluster API providers of a release in the
// cluster that it runs in, and reverts external changes to them.
package main

import (
	"fmt"
	"os"

	_ "golang.org/x/crypto/x509roots/fallback" // the image contains no certificates
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "capi-installer:", err)
		os.Exit(1)
	}
}
