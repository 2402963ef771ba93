// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/fixture"
)

var built struct {
	sync.Once
	dir, path string
	err       error
}

// binary is the path of capi-installer, compiled once.
func binary(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "capi-installer-e2e-"); built.err != nil {
			return
		}
		built.path = filepath.Join(built.dir, "capi-installer")
		built.err = fixture.Build(context.Background(), built.path, "", "../../cmd/capi-installer")
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// removeBinary removes the folder of the binary, if it exists.
func removeBinary() error { return os.RemoveAll(built.dir) }

// remembered is the number of lines at the end of a log that a failed test shows.
const remembered = 400

// line are the fields of a log line that tests use.
type line struct {
	Message string `json:"msg"`
	Version string `json:"version"`
	Phase   string `json:"phase"`
}

// process is a running capi-installer.
type process struct {
	t               *testing.T
	command         *exec.Cmd
	health, metrics string // URLs
	exited          chan struct{}
	err             error // of the exit, once exited is closed

	mutex sync.Mutex
	lines []line
	tail  []string // the current end of the log
}

// launch starts capi-installer with additional environment variables. watch, which can be nil, is called for each line
// of the log before the next one is read. The caller must end the process.
func launch(t *testing.T, environment []string, watch func(*process, line), arguments ...string) *process {
	t.Helper()
	health, metrics := freeAddress(t), freeAddress(t)
	p := &process{t: t, health: "http://" + health, metrics: "http://" + metrics, exited: make(chan struct{})}
	p.command = exec.Command(binary(t), append([]string{"--health-probe-bind-address=" + health, "--metrics-bind-address=" + metrics, "--metrics-insecure"}, arguments...)...)
	p.command.Env = append([]string{"HOME=" + os.Getenv("HOME"), "TMPDIR=" + t.TempDir()}, environment...)
	p.command.SysProcAttr = fixture.EndWithParent()
	log, err := p.command.StderrPipe()
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		t.Fatalf("starting capi-installer: %v", err)
	}
	go func() {
		p.read(log, watch)
		p.err = p.command.Wait()
		close(p.exited)
	}()
	return p
}

// end kills the process, and shows the end of its log if the test has failed.
func (p *process) end() {
	p.kill()
	if p.t.Failed() {
		p.t.Logf("the end of the log of capi-installer (process %d):\n%s", p.command.Process.Pid, p.log())
	}
}

// read reads the log to its end.
func (p *process) read(log io.Reader, watch func(*process, line)) {
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 4<<20)
	for scanner.Scan() {
		read := line{}
		_ = json.Unmarshal(scanner.Bytes(), &read) // lines that are not JSON are only for the tail
		p.mutex.Lock()
		p.lines = append(p.lines, read)
		p.tail = append(p.tail, scanner.Text())
		p.tail = p.tail[max(0, len(p.tail)-remembered):]
		p.mutex.Unlock()
		if watch != nil {
			watch(p, read)
		}
	}
	_, _ = io.Copy(io.Discard, log) // a longer line must not block the program
}

// log returns the end of the log.
func (p *process) log() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return strings.Join(p.tail, "\n")
}

// logged reports whether the log has a line with this message.
func (p *process) logged(message string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.ContainsFunc(p.lines, func(l line) bool { return l.Message == message })
}

// runs reports whether the process is running.
func (p *process) runs() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the process as kill -9 does, and waits for its end.
func (p *process) kill() {
	_ = p.command.Process.Kill() // it can have ended
	<-p.exited
}

// grace is the time after SIGTERM within which the process must end. The kubelet kills it after 30 s.
const grace = 20 * time.Second

// terminate ends the process as a cluster does. It fails the test unless the process ends in time.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Errorf("capi-installer is not running: %v\n%s", err, p.log())
		return
	}
	select {
	case <-p.exited:
		if p.err != nil {
			p.t.Errorf("after SIGTERM capi-installer ended with %v", p.err)
		}
	case <-time.After(grace):
		p.t.Errorf("capi-installer is still running %s after SIGTERM; see its goroutines at the end of the log", grace)
		_ = p.command.Process.Signal(syscall.SIGQUIT) // Go programs print their goroutines and exit
		<-p.exited
	}
}

// freeAddress returns an unused address on loopback.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := fixture.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// memoryLimit is the maximum resident memory of the program in MiB.
const memoryLimit = 120

// resident returns the current and the maximum resident memory of a process in MiB.
func (p *process) resident() (now, highest float64) {
	p.t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	of := map[string]float64{}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "kB" {
			of[fields[0]], _ = strconv.ParseFloat(fields[1], 64)
		}
	}
	return of["VmRSS:"] / 1024, of["VmHWM:"] / 1024
}
