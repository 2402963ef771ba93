// SPDX-License-Identifier: Apache-2.0

package e2e

import "syscall"

// endWithParent has a program end with the test that started it, also if that is killed.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
