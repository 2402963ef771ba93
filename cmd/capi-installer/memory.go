// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime/debug"
)

// boundMemory has garbage collected often, because the objects of a reconcile are large and short-lived, and the program is idle most of the
// time. GOGC in the environment takes precedence.
func boundMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
