// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/capi-installer/capi-installer/test/registry"
)

// patience is the timeout of a script's wait for an event.
const patience = 2 * time.Minute

// until waits for an event, and fails the script with the event's name after patience.
func until(ts *testscript.TestScript, event string, happened func() bool) {
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("timed out after %s waiting for %s", patience, event)
		}
	}
}

func await(ts *testscript.TestScript, args []string) {
	reg := ts.Value(registryKey{}).(*registry.Registry)
	until(ts, "a request for "+args[0], func() bool { return reg.Paths()[args[0]] > 0 })
}

func awaitPipe(ts *testscript.TestScript, args []string) {
	until(ts, "a reader of "+args[0], func() bool {
		pipe, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY|syscall.O_NONBLOCK, 0) // fails without a reader
		if err == nil {
			ts.Defer(func() { _ = pipe.Close() })
		}
		return err == nil
	})
}

func awaitEnd(ts *testscript.TestScript, args []string) {
	for _, program := range ts.BackgroundCmds() {
		until(ts, args[0]+" to end "+strings.Join(program.Args, " "), func() bool {
			return errors.Is(program.Process.Signal(syscall.Signal(0)), os.ErrProcessDone)
		})
	}
}
