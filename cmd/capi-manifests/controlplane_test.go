// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/capi-installer/capi-installer/test/controlplane"
)

// withControlplane runs the tests and stops their shared control plane.
type withControlplane struct{ *testing.M }

// Run implements testscript.TestingM.
func (m withControlplane) Run() int {
	// Programs inherit an ignored SIGHUP, as with nohup, and ignore it too. A handler here restores the default for the
	// programs that scripts start.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	code := m.M.Run()
	if err := controlplane.StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}
