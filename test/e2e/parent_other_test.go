// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package e2e

import "syscall"

// endWithParent can do nothing here: a program outlives a test that is killed.
func endWithParent() *syscall.SysProcAttr { return nil }
