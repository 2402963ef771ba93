// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"fmt"
	"os"
	"strings"
)

// Resident returns the current resident memory of a process in bytes; 0 if the process has ended.
func Resident(pid int) int64 { return memory(pid, "VmRSS:") }

// PeakResident returns the maximum resident memory of a process in bytes; 0 if the process has ended.
func PeakResident(pid int) int64 { return memory(pid, "VmHWM:") }

// memory returns a field of /proc/PID/status.
func memory(pid int, field string) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(status), field)
	var kib int64
	_, _ = fmt.Sscan(after, &kib)
	return kib << 10
}

// CPU returns the CPU seconds of a running process; 0 if it has ended.
func CPU(pid int) float64 {
	const ticks = 100 // in a second, on every Linux
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	var user, system float64
	var skip string
	fields := []any{&skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &user, &system}
	_, _ = fmt.Sscan(after, fields...)
	return (user + system) / ticks
}
