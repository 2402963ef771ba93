// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"
)

// terminal is capi-manifests on a pseudoterminal, with an emulator that shows its output.
type terminal struct {
	command      *exec.Cmd
	master, line *os.File
	emulator     *vt.Emulator
	done         sync.WaitGroup

	mu     sync.Mutex // of the emulator and of output
	output bytes.Buffer
}

// startTerminal starts capi-manifests in a session of its own, so that a change of the size and Ctrl-C send signals as in a shell.
func startTerminal(t *testing.T, width, height int, env []string, args ...string) *terminal {
	t.Helper()
	p := &terminal{command: exec.Command("capi-manifests", args...), emulator: vt.NewEmulator(width, height)}
	p.open(t)
	p.resize(t, width, height)
	p.command.Stdin, p.command.Stdout, p.command.Stderr = p.line, p.line, p.line
	p.command.Env = append(os.Environ(), append([]string{"TERM=xterm-256color", "NO_COLOR="}, env...)...)
	p.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	p.done.Go(p.read)
	p.done.Go(func() { _, _ = io.Copy(p.master, p.emulator) }) // answers of the terminal
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		_ = errors.Join(p.line.Close(), p.master.Close(), p.emulator.Close())
		p.done.Wait()
	})
	return p
}

// open opens a pseudoterminal; see pty(7).
func (p *terminal) open(t *testing.T) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	line, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.master, p.line = master, line
}

func (p *terminal) read() {
	part := make([]byte, 4096)
	for {
		n, err := p.master.Read(part)
		p.mu.Lock()
		p.output.Write(part[:n])
		_, _ = p.emulator.Write(part[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *terminal) resize(t *testing.T, width, height int) {
	t.Helper()
	p.mu.Lock()
	p.emulator.Resize(width, height)
	p.mu.Unlock()
	if err := unix.IoctlSetWinsize(int(p.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: uint16(height)}); err != nil {
		t.Fatal(err)
	}
}

func (p *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// await waits until each text is on the screen.
func (p *terminal) await(t *testing.T, texts ...string) {
	t.Helper()
	p.until(t, fmt.Sprintf("%q on the screen", texts), func(screen string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(screen, text) })
	})
}

// until waits for an event on the screen.
func (p *terminal) until(t *testing.T, event string, happened func(screen string) bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		p.mu.Lock()
		screen := p.emulator.String()
		done := happened(screen)
		p.mu.Unlock()
		switch {
		case done:
			return
		case time.Now().After(end):
			t.Fatalf("timed out waiting for %s:\n%s", event, screen)
		}
	}
}

// wantEnd checks the exit code, and that the terminal is as it was before.
func (p *terminal) wantEnd(t *testing.T, before *unix.Termios, code int) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.command.Wait() }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("timed out waiting for the program to end")
	}
	if got := p.command.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
	if after := p.settings(t); *after != *before {
		t.Errorf("the settings of the terminal were %v and are %v", *before, *after)
	}
	p.until(t, "the report on the normal screen, with a cursor", func(screen string) bool {
		return strings.Contains(screen, "unmanaged-39.example.com") && !p.emulator.IsAltScreen() && !p.emulator.CursorHidden()
	})
}

func (p *terminal) settings(t *testing.T) *unix.Termios {
	t.Helper()
	settings, err := unix.IoctlGetTermios(int(p.line.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

// longStatus returns the kubeconfig of a rollout with 40 unmanaged CRDs.
func longStatus(t *testing.T) string {
	cluster, kubeconfig := newStoredCluster(t, "rolling.yaml")
	var unmanaged []any
	for i := range 40 {
		unmanaged = append(unmanaged, fmt.Sprintf("unmanaged-%02d.example.com", i))
	}
	cluster.lists["clusterapis"][0].(map[string]any)["spec"] = map[string]any{"unmanagedCRDs": unmanaged}
	return kubeconfig
}

func TestTerminal_StatusFitsItsSize(t *testing.T) {
	p := startTerminal(t, 80, 24, nil, "status", "--watch", "--kubeconfig", longStatus(t))
	before := p.settings(t)
	p.await(t, "ROLLING OUT  Version", "Next steps", " more lines: enlarge the terminal")
	p.resize(t, 50, 12)
	p.await(t, "ROLLING OUT  Version", " more lines: enlarge the terminal")
	p.resize(t, 80, 60)
	p.await(t, "ROLLING OUT  Version", "Next steps", "unmanaged-39.example.com")
	p.press(t, "\x03")
	p.wantEnd(t, before, 130)
}

func TestTerminal_InterruptsRestoreIt(t *testing.T) {
	for name, c := range map[string]struct {
		stop func(*terminal)
		code int
	}{
		"Ctrl-C":  {func(p *terminal) { p.press(t, "\x03") }, 130},
		"SIGINT":  {func(p *terminal) { _ = p.command.Process.Signal(syscall.SIGINT) }, 130},
		"SIGTERM": {func(p *terminal) { _ = p.command.Process.Signal(syscall.SIGTERM) }, 143},
	} {
		t.Run(name, func(t *testing.T) {
			p := startTerminal(t, 80, 60, nil, "status", "--watch", "--wait", "--kubeconfig", longStatus(t))
			before := p.settings(t)
			p.await(t, "unmanaged-39.example.com")
			c.stop(p)
			p.wantEnd(t, before, c.code)
		})
	}
}

// TestTerminal_WithoutColorOrCursor checks the codes in the output.
func TestTerminal_WithoutColorOrCursor(t *testing.T) {
	for env, codes := range map[string]bool{"NO_COLOR=1": true, "TERM=dumb": false} {
		t.Run(env, func(t *testing.T) {
			p := startTerminal(t, 80, 60, []string{env}, "status", "--watch", "--kubeconfig", longStatus(t))
			p.await(t, "ROLLING OUT", "4.22.0-1")
			p.mu.Lock()
			defer p.mu.Unlock()
			if strings.Contains(p.output.String(), "\x1b[1;34m") || strings.Contains(p.output.String(), "\x1b") != codes {
				t.Errorf("got %q", p.output.String())
			}
		})
	}
}
