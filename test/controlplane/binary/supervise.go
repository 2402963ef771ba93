// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startRequest asks the supervisor to start one of the programs. Its output is
// appended to the file Log.
type startRequest struct {
	Program string   `json:"program"`
	Args    []string `json:"args"`
	Log     string   `json:"log"`
}

// startEvent reports that a program runs as PID, or that it has ended.
type startEvent struct {
	Program string `json:"program"`
	PID     int    `json:"pid,omitempty"`
	Ended   string `json:"ended,omitempty"`
}

// supervise starts programs as JSON objects on standard input ask for, and
// reports on standard output. When its standard input ends, which it does when
// the process that holds the other end exits or is killed, it kills all it has
// started and removes the folder that its argument names, if there is one.
//
// The programs are its children, not the caller's: so there is no moment in which
// a killed caller leaves one behind, and no process id that could by then be
// someone else's.
func supervise() int {
	// Not signal.Ignore: children would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	runtime.LockOSThread() // dieWithParent's parent is a thread, and this one ends last
	s := &supervisor{events: json.NewEncoder(os.Stdout)}
	err := s.serve(os.Stdin)
	s.killAll()
	for _, folder := range os.Args[1:] {
		err = errors.Join(err, removeAll(folder))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return 1
	}
	return 0
}

type supervisor struct {
	mu       sync.Mutex // guards events
	events   *json.Encoder
	children []*exec.Cmd
	running  sync.WaitGroup
}

func (s *supervisor) serve(requests io.Reader) error {
	decoder := json.NewDecoder(requests)
	for {
		var request startRequest
		if err := decoder.Decode(&request); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		if err := s.start(request); err != nil {
			s.report(startEvent{Program: request.Program, Ended: err.Error()})
		}
	}
}

func (s *supervisor) start(request startRequest) error {
	binary, err := binaryOf(request.Program)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(request.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	child := exec.Command(binary, request.Args...)
	child.Args[0] = request.Program
	child.Stdout, child.Stderr = log, log
	child.SysProcAttr = dieWithParent()
	if err := child.Start(); err != nil {
		return err
	}
	s.children = append(s.children, child)
	s.report(startEvent{Program: request.Program, PID: child.Process.Pid})
	s.running.Go(func() {
		_ = child.Wait() // its state says it
		s.report(startEvent{Program: request.Program, Ended: child.ProcessState.String()})
	})
	return nil
}

// binaryOf returns the binary of a program. CONTROLPLANE_KUBERNETES names one with the programs of another
// version of Kubernetes.
func binaryOf(program string) (string, error) {
	if other := os.Getenv("CONTROLPLANE_KUBERNETES"); other != "" && strings.HasPrefix(program, "kube-") {
		return other, nil
	}
	return os.Executable()
}

// report writes to the parent process, which may have ended.
func (s *supervisor) report(event startEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.events.Encode(event)
}

func (s *supervisor) killAll() {
	for _, child := range s.children {
		_ = child.Process.Kill() // fails only on one that has ended
	}
	s.running.Wait()
}

// removeAll removes a folder, into which another process may be
// writing a last file.
func removeAll(folder string) error {
	var err error
	for range 50 {
		if err = os.RemoveAll(folder); err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}
