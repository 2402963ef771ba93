// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// supervisor is the parent process of all programs. It reads from a pipe which programs to start, and ends, with all of
// them, at the end of the pipe: when this process closes it, exits or is killed.
type supervisor struct {
	process *exec.Cmd
	stdin   io.WriteCloser
	logs    string // the directory of the programs' logs
	stderr  *lines
	gone    chan struct{} // closed when the supervisor has ended

	died  chan struct{} // closed when the first program has ended
	ended *ProgramError // the first program to end, when died is closed

	mu   sync.Mutex // guards pids and killed
	pids map[string]int
	// killed are the programs that kill has ended; each channel is closed at the end.
	killed map[string]chan struct{}
}

// environment configures the programs' Go runtime. The heaps are small, and test machines lack CPU, not memory:
// collecting less often saves a quarter of the API server's CPU time. With 500 CRDs an API server uses up to 5 GiB, so
// the limit is higher: near it, the runtime collects without pause. Zero CPUs means all.
func environment(cpus int) []string {
	environment := append(os.Environ(), "GOGC=300", "GOMEMLIMIT=8GiB")
	if cpus > 0 {
		environment = append(environment, fmt.Sprintf("GOMAXPROCS=%d", cpus))
	}
	return environment
}

// startSupervisor starts the supervisor in the cluster's directory; it removes the directories of remove at its end.
// Zero CPUs means all.
func startSupervisor(binary string, f files, cpus int, remove ...string) (*supervisor, error) {
	s := &supervisor{
		process: exec.Command(binary, append([]string{"supervise"}, remove...)...),
		logs:    f.logs, stderr: &lines{},
		gone: make(chan struct{}), died: make(chan struct{}), pids: map[string]int{}, killed: map[string]chan struct{}{},
	}
	s.process.Dir = f.dir
	s.process.Stderr = s.stderr
	s.process.Env = environment(cpus)
	// A separate process group, so that an interrupt from the terminal only reaches the caller.
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

// follow reads the reports of the supervisor to their end.
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
		if event.Ended != "" && s.wasKilled(event.Program) {
			continue
		}
		if event.Ended != "" {
			s.end(&ProgramError{Program: event.Program, Log: s.log(event.Program), Err: fmt.Errorf("the program ended: %s", event.Ended)})
		} else {
			s.mu.Lock()
			s.pids[event.Program] = event.PID
			s.mu.Unlock()
		}
	}
	_ = s.process.Wait() // the reason is in its state and standard error
	s.end(&ProgramError{Program: "supervise", Tail: s.stderr.last(), Err: fmt.Errorf("the supervisor ended: %s", s.process.ProcessState)})
	close(s.gone)
}

// end records the program that ended first: its end is the cause for the end of the others.
func (s *supervisor) end(err *ProgramError) {
	if s.ended == nil {
		s.ended = err
		close(s.died)
	}
}

// kill ends a program like a crash, and returns when it has ended. Its end is no failure of the cluster.
func (s *supervisor) kill(program string) error {
	ended := make(chan struct{})
	s.mu.Lock()
	pid := s.pids[program]
	s.killed[program] = ended
	s.mu.Unlock()
	if pid == 0 {
		return fmt.Errorf("killing %s: it does not run", program)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing %s: %w", program, err)
	}
	<-ended
	return nil
}

// wasKilled reports whether kill has ended a program that has just ended.
func (s *supervisor) wasKilled(program string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended, found := s.killed[program]
	if found {
		delete(s.killed, program)
		close(ended)
	}
	return found
}

// whileAllRun returns a context that also ends when a program ends, with that program's error as
// its cause.
func (s *supervisor) whileAllRun(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.died:
			cancel(s.ended)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

func (s *supervisor) log(program string) string { return filepath.Join(s.logs, program+".log") }

// start requests a program. Its failure is reported later.
func (s *supervisor) start(program string, arguments ...string) error {
	request := struct {
		Program string   `json:"program"`
		Args    []string `json:"args"`
		Log     string   `json:"log"`
	}{program, arguments, s.log(program)}
	if err := json.NewEncoder(s.stdin).Encode(request); err != nil {
		return fmt.Errorf("requesting %s: %w", program, err)
	}
	return nil
}

// stop kills all programs and waits for their end.
func (s *supervisor) stop() error {
	s.stdin.Close()
	<-s.gone
	if said := s.stderr.last(); said != "" {
		return fmt.Errorf("stopping the control plane: %s", said)
	}
	return nil
}
