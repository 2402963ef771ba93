// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// ProgramError reports that a program of the control plane ended or did not become ready.
type ProgramError struct {
	// Program is its name, such as "kube-apiserver"; "supervise" runs the others.
	Program string
	// Log is the path of its log; empty without log.
	Log string
	// Tail is the end of its log.
	Tail string
	// Err is the cause.
	Err error
}

func (e *ProgramError) Error() string {
	text := fmt.Sprintf("running %s: %v", e.Program, e.Err)
	if e.Log != "" {
		text += "; its log is " + e.Log
	}
	if e.Tail != "" {
		text += "; the end of the log:\n" + e.Tail
	}
	return text
}

func (e *ProgramError) Unwrap() error { return e.Err }

// tail returns the last lines of a log; "" without log.
func tail(path string, count int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(string(bytes.TrimSpace(content)), "\n")
	return strings.Join(all[max(0, len(all)-count):], "\n")
}
