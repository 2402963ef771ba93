// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "syscall"

// dieWithParent has no counterpart here: children outlive a killed supervisor.
func dieWithParent() *syscall.SysProcAttr { return nil }
