// SPDX-License-Identifier: Apache-2.0

//go:build unix

package localserver

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a program the leader of a process group, so that its children can be ended with it.
func ownGroup(process *exec.Cmd) { process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// interruptGroup asks the processes of the group to end. They may have exited.
func interruptGroup(process *exec.Cmd) { _ = syscall.Kill(-process.Process.Pid, syscall.SIGTERM) }

// killGroup ends the rest of the group.
func killGroup(process *exec.Cmd) { _ = syscall.Kill(-process.Process.Pid, syscall.SIGKILL) }
