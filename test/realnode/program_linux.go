// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Program is a program of the node, such as kubelet. Its log is the file NAME.log in the node's folder of logs.
type Program struct {
	name, path string
	arguments  []string
	env        []string
	log        string
	ready      func(context.Context) error // nil when the program works
	// restarts is set if the program is started again when it ends before it works, as systemd does.
	restarts bool

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// Start starts the program and returns when it works. The program must not be running.
func (p *Program) Start(ctx context.Context) error {
	if err := p.launch(); err != nil {
		return err
	}
	return p.await(ctx)
}

func (p *Program) launch() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.process = exec.Command(p.path, p.arguments...)
	p.process.Args[0] = p.name
	p.process.Env = append(os.Environ(), p.env...)
	p.process.Dir = filepath.Dir(p.log)
	p.process.Stdout, p.process.Stderr = log, log
	p.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the terminal does not reach it
	if err := p.process.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	process, ended := p.process, make(chan struct{})
	p.ended = ended
	go func() {
		_ = process.Wait() // its state has the reason
		close(ended)
	}()
	return nil
}

// Stop ends the program as an administrator does, and kills it after ten seconds.
func (p *Program) Stop() error { return p.end(syscall.SIGTERM) }

// Kill ends the program without notice.
func (p *Program) Kill() error { return p.end(syscall.SIGKILL) }

func (p *Program) end(signal syscall.Signal) error {
	p.mu.Lock()
	process, ended := p.process, p.ended
	p.mu.Unlock()
	if process == nil {
		return nil
	}
	if err := process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending %s: %w", p.name, err)
	}
	select {
	case <-ended:
		return nil
	case <-time.After(10 * time.Second):
	}
	_ = process.Process.Kill()
	<-ended
	return nil
}

// await polls ready until it succeeds, or the program has ended and does not restart, or the time is over.
func (p *Program) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := p.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
			continue
		case <-p.ended:
			err = fmt.Errorf("it ended: %s", p.process.ProcessState)
			if p.restarts {
				time.Sleep(time.Second)
				if err = p.launch(); err == nil {
					continue
				}
			}
		case <-ctx.Done():
			err = fmt.Errorf("it did not become ready within %s: %w", startLimit, err)
		}
		return fmt.Errorf("starting %s: %w\nThe end of %s:\n%s", p.name, err, p.log, cmp.Or(tail(p.log, 20), "(empty)"))
	}
}
