// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controlplane

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// supervisor is the process of the binary that all programs are children of. It
// reads what to start from a pipe and ends, with all of them, when the pipe does:
// when this process closes it, exits or is killed.
type supervisor struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	logs    string // the folder of the programs' logs
	stderr  *lines
	gone    chan struct{} // closed once the supervisor has ended

	mu    sync.Mutex
	ended *ProgramError // the first program that ended
	died  chan struct{} // closed when ended is set
	pids  map[string]int
}

// startSupervisor starts the supervisor. It removes the folders of remove as it ends.
func startSupervisor(binary, logs string, remove ...string) (*supervisor, error) {
	s := &supervisor{
		process: exec.Command(binary, append([]string{"supervise"}, remove...)...),
		logs:    logs, stderr: &lines{},
		gone: make(chan struct{}), died: make(chan struct{}), pids: map[string]int{},
	}
	s.process.Stderr = s.stderr
	// A group of its own: an interrupt from the terminal is for the caller alone.
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if s.stdin, err = s.process.StdinPipe(); err != nil {
		return nil, err
	}
	events, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("starting the control plane binary: %w", err)
	}
	go s.follow(events)
	return s, nil
}

// follow notes what the supervisor reports, to its end.
func (s *supervisor) follow(events io.Reader) {
	decoder := json.NewDecoder(events)
	for {
		var event struct {
			Program, Ended string
			PID            int
		}
		if err := decoder.Decode(&event); err != nil {
			break
		}
		s.note(event.Program, event.Ended, event.PID)
	}
	_ = s.process.Wait() // its standard error says why it failed
	s.note("supervise", "the supervisor of all programs ended: "+s.process.ProcessState.String()+" "+s.stderr.last(), 0)
	close(s.gone)
}

func (s *supervisor) note(program, ended string, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pid != 0 {
		s.pids[program] = pid
	}
	if ended != "" && s.ended == nil {
		s.ended = &ProgramError{Program: program, Log: s.log(program), Err: fmt.Errorf("it ended: %s", ended)}
		close(s.died)
	}
}

func (s *supervisor) log(program string) string { return filepath.Join(s.logs, program+".log") }

// start asks for a program. Whether it lives shows later.
func (s *supervisor) start(program string, arguments ...string) error {
	request := struct {
		Program string   `json:"program"`
		Args    []string `json:"args"`
		Log     string   `json:"log"`
	}{program, arguments, s.log(program)}
	if err := json.NewEncoder(s.stdin).Encode(request); err != nil {
		return fmt.Errorf("asking for %s: %w", program, err)
	}
	return nil
}

// stop kills all programs and waits until they are gone.
func (s *supervisor) stop() error {
	s.stdin.Close()
	<-s.gone
	if said := s.stderr.last(); said != "" {
		return fmt.Errorf("stopping the control plane: %s", said)
	}
	return nil
}
