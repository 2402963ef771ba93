// SPDX-License-Identifier: Apache-2.0

//go:build linux

package process

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// specification describes the process of a container to the program RunContainer.
type specification struct {
	Root      string
	Mounts    []bind
	Arguments []string
	Env       []string
	Dir       string
	Hostname  string
}

// bind is a file or a folder of the node in a container.
type bind struct{ Source, Target string }

type container struct {
	specification
	sandbox   string
	namespace netns.NsHandle // of the pod's network
	log, file string         // paths; file is the beginning of names

	command  *exec.Cmd     // nil before start
	output   *logWriter    // nil before start
	ended    chan struct{} // closed when the process has ended
	exitCode int32         // when ended is closed
}

func newContainer(i image, config *runtimeapi.ContainerConfig, resolver string) *container {
	command, arguments := config.Command, config.Args
	if len(command) == 0 {
		command = i.config.Entrypoint
		if len(arguments) == 0 {
			arguments = i.config.Cmd
		}
	}
	c := &container{ended: make(chan struct{}), specification: specification{
		Root: i.root, Arguments: append(append([]string{}, command...), arguments...), Env: append([]string{}, i.config.Env...),
		Dir: cmp.Or(config.WorkingDir, i.config.WorkingDir, "/"), Mounts: []bind{{"/proc", "/proc"}, {resolver, "/etc/resolv.conf"}},
	}}
	for _, device := range []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"} { // not /dev: kubelet adds a file to it
		c.Mounts = append(c.Mounts, bind{device, device})
	}
	for _, variable := range config.Envs {
		c.Env = append(c.Env, variable.Key+"="+string(variable.Value))
	}
	c.Env = append(c.Env, "HOME=/", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") // unless set before
	for _, mount := range config.Mounts {
		c.Mounts = append(c.Mounts, bind{mount.HostPath, mount.ContainerPath})
	}
	return c
}

// start starts the process and returns.
func (c *container) start() error {
	text, err := json.Marshal(c.specification)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.file+".json", text, 0o600); err != nil {
		return err
	}
	started := make(chan error)
	go c.run(started)
	return <-started
}

// run starts the process in the network namespace of the pod, and waits for its end.
func (c *container) run(started chan<- error) {
	defer close(c.ended)
	// The thread is in the namespace and the parent of the process, so it must live as long, and ends with this function.
	runtime.LockOSThread()
	started <- c.launch()
	if c.command == nil {
		return
	}
	err := c.command.Wait()
	c.output.close()
	if state, ok := errors.AsType[*exec.ExitError](err); ok {
		c.exitCode = int32(state.ExitCode())
		if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
			c.exitCode = 128 + int32(status.Signal())
		}
	} else if err != nil {
		c.exitCode = 128
	}
}

func (c *container) launch() error {
	if err := netns.Set(c.namespace); err != nil {
		return fmt.Errorf("entering the network of the pod: %w", err)
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	command := exec.Command("/proc/self/exe", c.file+".json")
	command.Args[0] = ContainerProgram
	c.output = &logWriter{file: log}
	command.Stdout, command.Stderr = c.output, c.output
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUTS, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := command.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	c.command = command
	return os.WriteFile(c.file+".pid", []byte(strconv.Itoa(command.Process.Pid)), 0o600)
}

// stop ends the process, if it runs: it is killed after a time.
func (c *container) stop(patience time.Duration) {
	if c.command == nil {
		return
	}
	if patience > 0 {
		_ = c.command.Process.Signal(syscall.SIGTERM) // fails only on a process that has ended
	}
	select {
	case <-c.ended:
		return
	case <-time.After(patience):
	}
	_ = c.command.Process.Kill()
	<-c.ended
}

// logWriter writes lines in the format of the CRI.
type logWriter struct {
	file *os.File
	rest []byte
}

func (w *logWriter) Write(text []byte) (int, error) {
	w.rest = append(w.rest, text...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(text), nil
		}
		if _, err := fmt.Fprintf(w.file, "%s stderr F %s\n", time.Now().Format(time.RFC3339Nano), line); err != nil {
			return 0, err
		}
		w.rest = rest
	}
}

// close writes the last line, also without its end.
func (w *logWriter) close() {
	if len(w.rest) > 0 {
		_, _ = w.Write([]byte("\n"))
	}
	_ = w.file.Close()
}

// ContainerProgram is the name of the program RunContainer.
const ContainerProgram = "container"

// RunContainer becomes the process of a container, whose specification is in a file. Its mounts end with it.
func RunContainer(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var s specification
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	for _, m := range s.Mounts {
		if err := m.mount(s.Root); err != nil {
			return fmt.Errorf("mounting %s: %w", m.Target, err)
		}
	}
	if err := errors.Join(unix.Sethostname([]byte(s.Hostname)), unix.Chroot(s.Root), os.Chdir(s.Dir), unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)); err != nil {
		return fmt.Errorf("entering the files of the image: %w", err)
	}
	if len(s.Arguments) == 0 {
		return errors.New("the container has no command")
	}
	return fmt.Errorf("running %s: %w", s.Arguments[0], unix.Exec(s.Arguments[0], s.Arguments, s.Env))
}

// mount makes the source visible below a folder. A missing source is a folder, as in other runtimes.
func (b bind) mount(root string) error {
	info, err := os.Stat(b.Source)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(b.Source, 0o755); err == nil {
			info, err = os.Stat(b.Source)
		}
	}
	if err != nil {
		return err
	}
	target := filepath.Join(root, b.Target)
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return err
	}
	return unix.Mount(b.Source, target, "", unix.MS_BIND|unix.MS_REC, "")
}
