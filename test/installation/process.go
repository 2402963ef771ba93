// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/capi-installer/capi-installer/test/fixture"
)

// Process is a running capi-installer with the addresses of its endpoints.
type Process struct {
	PID             int
	Health, Metrics string        // URLs without a path
	Exited          chan struct{} // closed once the process has ended and its log is read
	Err             error         // how the process ended, once Exited is closed

	command *exec.Cmd
	mutex   sync.Mutex
	tail    []string // the current end of the log
}

// remembered is the number of lines of a log that Log returns.
const remembered = 400

// Launch starts a program with arguments in addition to the ones for its endpoints, and with only these environment
// variables. If read is not nil, it calls read for each line of the log before it reads the next one. The caller ends the
// process; it also ends with the caller.
func Launch(program string, environment []string, read func(line []byte), arguments ...string) (*Process, error) {
	health, err := fixture.FreeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := fixture.FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Process{Health: "http://" + health, Metrics: "http://" + metrics, Exited: make(chan struct{})}
	p.command = exec.Command(program, append([]string{"--health-probe-bind-address=" + health, "--metrics-bind-address=" + metrics, "--metrics-insecure"}, arguments...)...)
	p.command.Env = environment
	p.command.SysProcAttr = fixture.EndWithParent()
	log, err := p.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting capi-installer: %w", err)
	}
	p.PID = p.command.Process.Pid
	go func() {
		p.read(log, read)
		p.Err = p.command.Wait()
		close(p.Exited)
	}()
	return p, nil
}

// read reads the log to its end.
func (p *Process) read(log io.Reader, call func(line []byte)) {
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 4<<20)
	for scanner.Scan() {
		p.mutex.Lock()
		p.tail = append(p.tail, scanner.Text())
		p.tail = p.tail[max(0, len(p.tail)-remembered):]
		p.mutex.Unlock()
		if call != nil {
			call(scanner.Bytes())
		}
	}
	_, _ = io.Copy(io.Discard, log) // a longer line must not block the program
}

// Log returns the end of the log.
func (p *Process) Log() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return strings.Join(p.tail, "\n")
}

// Runs reports whether the process is running.
func (p *Process) Runs() bool {
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process.
func (p *Process) Signal(signal os.Signal) error { return p.command.Process.Signal(signal) }

// Kill ends the process as kill -9 does, and waits for its end. The process can have ended before.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL)
	<-p.Exited
}

// grace is the time between SIGTERM and the end of the process. The kubelet kills it after 30 s.
const grace = 20 * time.Second

// Stop ends the process as the kubelet does. It returns an error if the process has already ended, fails, or takes longer
// than 20 s; in the last case the log ends with its goroutines.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("capi-installer is not running: %w", err)
	}
	select {
	case <-p.Exited:
		if p.Err != nil {
			return fmt.Errorf("capi-installer ended after SIGTERM: %w", p.Err)
		}
		return nil
	case <-time.After(grace):
		_ = p.Signal(syscall.SIGQUIT) // Go programs print their goroutines and exit
		<-p.Exited
		return fmt.Errorf("capi-installer was still running %s after SIGTERM; see its goroutines at the end of the log", grace)
	}
}
