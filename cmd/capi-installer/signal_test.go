// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// asProgram is the environment variable that makes the test binary the program.
const asProgram = "CAPI_INSTALLER_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// patience is the timeout of waits for the program, on a busy machine too.
const patience = 2 * time.Minute

// The program blocks in a read that no context ends: its kubeconfig is a pipe. A second SIGTERM ends it immediately,
// with exit code 1 of the signal handler of controller-runtime, and without an error message.
func TestMain_SecondSIGTERMEndsAtOnce(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "kubeconfig")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	program := exec.Command(os.Args[0], "--kubeconfig", pipe, "--release-version", "1.0.0")
	program.Env = append(os.Environ(), asProgram+"=1")
	program.Stderr = &stderr
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { _ = program.Process.Kill() })
	defer kill.Stop()
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	opened := make(chan *os.File, 1)
	go func() {
		file, _ := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the program reads
		opened <- file
	}()
	select {
	case file := <-opened:
		defer file.Close()
	case err := <-ended:
		t.Fatalf("the program ended before it read the kubeconfig: %v\n%s", err, &stderr)
	}
	for program.Process.Signal(syscall.SIGTERM) == nil {
		time.Sleep(10 * time.Millisecond)
	}
	<-ended
	if code := program.ProcessState.ExitCode(); code != 1 || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q; want 1 and no message", code, &stderr)
	}
}
