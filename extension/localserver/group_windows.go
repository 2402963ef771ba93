// SPDX-License-Identifier: Apache-2.0

package localserver

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a program a process group of its own, so that Ctrl+C does not reach it before its server is stopped.
func ownGroup(process *exec.Cmd) {
	process.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// interruptGroup ends the program: Windows has no signal that asks for it.
func interruptGroup(process *exec.Cmd) { killGroup(process) }

// killGroup ends the program. Its children end when they lose its pipes.
func killGroup(process *exec.Cmd) { _ = process.Process.Kill() }
