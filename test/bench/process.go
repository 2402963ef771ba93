// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// finish runs a process to its end and returns its output and its cost.
func finish(cmd *exec.Cmd) ([]byte, cost, error) {
	var errorText strings.Builder
	cmd.Stderr = &errorText
	var output bytes.Buffer
	cmd.Stdout = &output
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, cost{}, err
	}
	ended, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watch(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	close(ended)
	used := cost{Memory: <-peak, Seconds: time.Since(start).Seconds()}
	if err != nil {
		return nil, cost{}, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, errorText.String())
	}
	used.CPU = cpu(cmd.ProcessState)
	return output.Bytes(), used, nil
}

// cpu returns the user and system time of a process that has ended, in seconds.
func cpu(state *os.ProcessState) float64 { return (state.UserTime() + state.SystemTime()).Seconds() }

// watch returns the peak of a process's memory, as Linux shows it while the
// process runs: its own figures afterwards include the memory of its parent.
func watch(pid int, ended <-chan struct{}) (peak int64) {
	every := time.NewTicker(2 * time.Millisecond)
	defer every.Stop()
	for {
		peak = max(peak, memory(pid, "VmHWM:"))
		select {
		case <-ended:
			return peak
		case <-every.C:
		}
	}
}

// memory returns a field of /proc/PID/status in bytes; 0 if the process has ended.
func memory(pid int, field string) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(status), field)
	var kib int64
	_, _ = fmt.Sscan(after, &kib)
	return kib << 10
}

// running returns the CPU seconds of a running process.
func running(pid int) float64 {
	const ticks = 100 // in a second, on every Linux
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	var user, system float64
	var skip string
	fields := []any{&skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &user, &system}
	_, _ = fmt.Sscan(after, fields...)
	return (user + system) / ticks
}
