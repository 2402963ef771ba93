// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// dieWithParent has the kernel kill a child when the thread that started it ends:
// if even the supervisor is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
