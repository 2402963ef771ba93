// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
)

// blockedRead is a command line whose program blocks while it reads dir/pipe, a named pipe.
type blockedRead struct {
	name, args string
	// files are the other files of the working directory.
	files map[string]string
}

func blockedReads() []blockedRead {
	const provider = " --provider-name a --provider-type addon --provider-version v1.0.0 --image-name example.com/a"
	fromPipe := map[string]string{"dir/kustomization.yaml": "resources: [pipe]\n"}
	return []blockedRead{
		{"ImagesJSON", "plan --images-json dir/pipe --platform AWS --release-version 1.0.0", nil},
		{"Stdin", "rbac --images-json - --platform AWS", nil},
		{"Resource", "generate dir" + provider, fromPipe},
		{"ConfigFile", "validate bundle --config dir/pipe", bundleFiles()},
		{"Kubeconfig", "validate bundle --against dir/pipe", bundleFiles()},
	}
}

const addonManifests = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: openshift-cluster-api}\n"

// bundleFiles are the files of a valid bundle in the directory bundle.
func bundleFiles() map[string]string {
	return map[string]string{
		"bundle/manifests.yaml": addonManifests,
		"bundle/metadata.json":  `{"providerName": "a", "providerType": "addon", "providerVersion": "v1.0.0", "contentID": "` + digest.FromString(addonManifests).String() + `"}`,
	}
}

func TestSignals_EndBlockedReads(t *testing.T) {
	for i, read := range blockedReads() {
		t.Run(read.name, func(t *testing.T) {
			t.Parallel()
			dir, pipe := workingDirectory(t, read)
			program := startProgram(t, dir, strings.Fields(read.args)...)
			if read.name == "Stdin" {
				program.fillStdin(t)
			} else {
				defer program.openPipe(t, pipe).Close() // the program reads it, and it stays open
			}
			signal, name := syscall.SIGINT, "interrupt"
			if i%2 == 1 {
				signal, name = syscall.SIGTERM, "terminated"
			}
			program.signal(t, signal)
			program.wantStopped(t, name)
		})
	}
}

func TestSignals_EndStalledRegistry(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, args := range [][]string{{"inspect"}, {"pack", "bundle", "--base"}} {
		dir, _ := workingDirectory(t, blockedRead{files: bundleFiles()})
		args = append(args, listener.Addr().String()+"/a:v1")
		if args[0] == "pack" {
			args = append(args, "--output-layout", "out")
		}
		program := startProgram(t, dir, args...)
		if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		connection, err := listener.Accept()
		if err != nil {
			t.Fatalf("waiting for a request to the registry: %v\n%s", err, &program.stderr)
		}
		defer connection.Close() // the registry never responds
		program.signal(t, syscall.SIGTERM)
		program.wantStopped(t, "terminated")
	}
}

// With nohup, the program ignores SIGHUP, and continues to read.
func TestSignals_IgnoredHangupStaysIgnored(t *testing.T) {
	dir, pipe := workingDirectory(t, blockedRead{})
	program := startShell(t, dir, `trap "" HUP && exec "$0" plan --images-json dir/pipe --platform AWS --release-version 1.0.0`)
	input := program.openPipe(t, pipe)
	program.signal(t, syscall.SIGHUP)
	if _, err := input.WriteString("{}"); err != nil {
		t.Fatal(err)
	}
	input.Close()
	if code := program.wait(t); code != cli.ExitFindings || !strings.Contains(program.stderr.String(), "core") {
		t.Errorf("exit code %d, want %d for a release without a core provider\n%s", code, cli.ExitFindings, &program.stderr)
	}
}

// The program writes to a pipe without a reader. A second signal does not wait for it.
func TestSignals_SecondEndsAtOnce(t *testing.T) {
	dir, pipe := workingDirectory(t, blockedRead{})
	program := startShell(t, dir, `exec "$0" explain -o json >dir/pipe`)
	reader, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := reader.Read(make([]byte, 1)); err != nil { // the program runs, and has more to write than the pipe holds
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); program.command.Process.Signal(syscall.SIGINT) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("timed out waiting for the program to end")
		}
	}
	if code := program.wait(t); code != -1 {
		t.Errorf("exit code %d, want none because the second signal killed the program\n%s", code, &program.stderr)
	}
}

// workingDirectory creates a directory with a named pipe.
func workingDirectory(t *testing.T, read blockedRead) (dir, pipe string) {
	t.Helper()
	dir = t.TempDir()
	pipe = filepath.Join(dir, "dir", "pipe")
	if err := errors.Join(os.Mkdir(filepath.Dir(pipe), 0o700), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, content := range read.files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, pipe
}

// runningProgram is capi-manifests in a separate process. Its standard input stays open.
type runningProgram struct {
	command        *exec.Cmd
	stdin          io.Writer
	stdout, stderr bytes.Buffer
	ended          chan error
}

func startProgram(t *testing.T, dir string, args ...string) *runningProgram {
	t.Helper()
	return startShell(t, dir, `exec "$0" "$@"`, args...)
}

// startShell starts a shell script with capi-manifests as $0.
func startShell(t *testing.T, dir, script string, args ...string) *runningProgram {
	t.Helper()
	p := &runningProgram{command: exec.Command("sh", append([]string{"-c", script, "capi-manifests"}, args...)...), ended: make(chan error, 1)}
	p.command.Dir = dir
	p.command.Stdout, p.command.Stderr = &p.stdout, &p.stderr
	stdin, err := p.command.StdinPipe()
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	t.Cleanup(func() { _ = p.command.Process.Kill() })
	go func() { p.ended <- p.command.Wait() }()
	return p
}

// openPipe opens a named pipe for writing, when the program or one of its child processes opens it for reading.
func (p *runningProgram) openPipe(t *testing.T, pipe string) *os.File {
	t.Helper()
	opened := make(chan *os.File, 1)
	go func() {
		file, _ := os.OpenFile(pipe, os.O_WRONLY, 0)
		opened <- file
	}()
	select {
	case file := <-opened:
		return file
	case err := <-p.ended:
		t.Fatalf("the program ended before it read the pipe: %v\n%s", err, &p.stderr)
	case <-time.After(patience):
		t.Fatal("timed out waiting for a reader of the pipe")
	}
	return nil
}

// fillStdin writes more to the standard input than the buffer of a pipe: it returns when the program reads.
func (p *runningProgram) fillStdin(t *testing.T) {
	t.Helper()
	filled := make(chan error, 1)
	go func() {
		_, err := p.stdin.Write(bytes.Repeat([]byte(" "), 256<<10))
		filled <- err
	}()
	select {
	case err := <-filled:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("timed out waiting for a reader of the standard input")
	}
}

func (p *runningProgram) signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatalf("the program ended before the signal: %v\n%s", err, &p.stderr)
	}
}

// wait waits for the end of the program, and returns its exit code; -1 if a signal killed it.
func (p *runningProgram) wait(t *testing.T) int {
	t.Helper()
	select {
	case err := <-p.ended:
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
		return p.command.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatal("timed out waiting for the program to end")
		return 0
	}
}

// wantStopped checks that a signal has stopped the program.
func (p *runningProgram) wantStopped(t *testing.T, signal string) {
	t.Helper()
	code := p.wait(t)
	exits := map[string]int{"interrupt": 130, "terminated": 143, "hangup": 129}
	if want := "capi-manifests: stopped: " + signal + " signal received\n"; code != exits[signal] || !strings.HasSuffix(p.stderr.String(), want) || p.stdout.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q; want exit code %d and %q", code, &p.stdout, &p.stderr, exits[signal], want)
	}
}
