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

	"github.com/capi-installer/capi-installer/test/installation"
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
		peak = max(peak, installation.PeakResident(pid))
		select {
		case <-ended:
			return peak
		case <-every.C:
		}
	}
}
