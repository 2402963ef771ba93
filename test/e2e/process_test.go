// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/installation"
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

// line are the fields of a log line that tests use.
type line struct {
	Message string `json:"msg"`
	Version string `json:"version"`
	Phase   string `json:"phase"`
}

// process is a running capi-installer of a test.
type process struct {
	*installation.Process
	t *testing.T

	mutex sync.Mutex
	lines []line
}

// launch starts capi-installer with additional environment variables. watch is called for each line of the log before
// the next one is read; it can be nil. The caller must end the process.
func launch(t *testing.T, environment []string, watch func(*process, line), arguments ...string) *process {
	t.Helper()
	p, started := &process{t: t}, make(chan struct{})
	read := func(text []byte) {
		l := line{}
		_ = json.Unmarshal(text, &l) // not every line is JSON
		p.mutex.Lock()
		p.lines = append(p.lines, l)
		p.mutex.Unlock()
		if <-started; watch != nil {
			watch(p, l)
		}
	}
	var err error
	p.Process, err = installation.Launch(binary(t), append([]string{"HOME=" + os.Getenv("HOME"), "TMPDIR=" + t.TempDir()}, environment...), read, arguments...)
	must(t, err)
	close(started)
	return p
}

// end kills the process, and shows the end of its log if the test has failed.
func (p *process) end() {
	p.Kill()
	if p.t.Failed() {
		p.t.Logf("the end of the log of capi-installer (process %d):\n%s", p.PID, p.Log())
	}
}

// logged reports whether the log has a line with this message.
func (p *process) logged(message string) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return slices.ContainsFunc(p.lines, func(l line) bool { return l.Message == message })
}

// terminate ends the process as a cluster does. It fails the test unless the process ends in time.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.Stop(); err != nil {
		p.t.Errorf("%v\n%s", err, p.Log())
	}
}

// freeAddress returns an unused address on loopback.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := fixture.FreeAddress()
	must(t, err)
	return address
}

// memoryLimit is the maximum resident memory of the program in MiB. The container's limit in manifests is higher by a reserve for
// a large cluster.
const memoryLimit = 256

// resident returns the current and the maximum resident memory of a process in MiB.
func (p *process) resident() (now, highest float64) {
	const mebi = 1 << 20
	return float64(installation.Resident(p.PID)) / mebi, float64(installation.PeakResident(p.PID)) / mebi
}

// signal sends a signal to a process that runs.
func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.Signal(signal); err != nil {
		p.t.Errorf("sending %s to capi-installer: %v", signal, err)
	}
}
