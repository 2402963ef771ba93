// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/capi-installer/capi-installer/internal/text"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// operator is a running capi-installer: the real binary, as in a cluster, with
// the credentials of its own service account.
type operator struct {
	command *exec.Cmd
	metrics string
	exited  chan error
}

// startOperator starts capi-installer and shows its log as it is written.
func (d *demo) startOperator(ctx context.Context, kubeconfig string, release release) (*operator, error) {
	address, err := fixture.FreeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(d.dir, "capi-installer.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, d.binary("capi-installer"),
		"--kubeconfig="+kubeconfig, "--images-json="+release.imagesJSON, "--signature-policy=", "--cache-dir="+filepath.Join(d.dir, "cache"),
		"--leader-elect", "--health-probe-bind-address=0", "--metrics-bind-address="+address, "--metrics-insecure")
	command.Env = append(os.Environ(), "RELEASE_VERSION="+release.version)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
	pipe, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting capi-installer: %w", err)
	}
	o := &operator{command: command, metrics: "http://" + address + "/metrics", exited: make(chan error, 1)}
	go func() {
		d.show(io.TeeReader(pipe, log))
		o.exited <- command.Wait()
		log.Close()
	}()
	return o, nil
}

// stop terminates capi-installer as the kubelet does, and waits for its end.
func (o *operator) stop() error {
	if err := o.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-o.exited:
		return err
	case <-time.After(20 * time.Second):
		return fmt.Errorf("capi-installer did not stop within 20 s of SIGTERM")
	}
}

// entry holds the fields of a log line that the demonstration shows.
type entry struct {
	Message  string `json:"msg"`
	Version  string `json:"version"`
	Phase    string `json:"phase"`
	Objects  int    `json:"objects"`
	Ready    int    `json:"ready"`
	For      string `json:"for"`
	Reason   string `json:"reason"`
	Cause    string `json:"cause"`
	WaitsFor string `json:"waitsFor"`
	Object   string `json:"object"`
	Action   string `json:"action"`
	CRD      string `json:"crd"`
}

// show reads the log to its end and shows one line per phase.
func (d *demo) show(log io.Reader) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		if text := e.text(); text != "" {
			d.screen.line("%s", text)
		}
	}
	_, _ = io.Copy(io.Discard, log) // a longer line must not block the program
}

func (e entry) text() string {
	switch e.Message {
	case "New desired version":
		return "decided on version " + e.Version
	case "Phase complete":
		return fmt.Sprintf("%-42s %3d of %3d ready", e.Phase, e.Ready, e.Objects)
	case "Phase waiting":
		return fmt.Sprintf("%-42s %3d of %3d ready, waiting for %s", e.Phase, e.Ready, e.Objects, e.For)
	case "Retiring version":
		return "retiring version " + e.Version
	case "Removing version":
		return fmt.Sprintf("removing the objects of only %s; remaining: %s", e.Version, cmp.Or(brief(e.WaitsFor), "none"))
	case "Retained CRD":
		return "retained CRD " + e.CRD
	case "Object written":
		if e.Action == "Recovered" {
			return "reverted drift of " + e.Object
		}
		return ""
	case "Installation failed", "Version not updated":
		return fmt.Sprintf("%s: %s: %s", e.Message, e.Reason, brief(e.Cause))
	default:
		return ""
	}
}

// brief returns a value truncated to the length of a line.
func brief(value string) string { return text.Truncate(value, 150) }

// requests returns the number of requests that capi-installer has sent to the API server, by method, from its metrics.
func (o *operator) requests(ctx context.Context) (map[string]int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.metrics, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of capi-installer: %w", err)
	}
	defer response.Body.Close()
	counts := map[string]int{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		labels, value, found := strings.Cut(strings.TrimPrefix(lines.Text(), "rest_client_requests_total"), "} ")
		_, method, hasMethod := strings.Cut(labels, `method="`)
		if !found || !hasMethod || !strings.HasPrefix(lines.Text(), "rest_client_requests_total") {
			continue
		}
		method, _, _ = strings.Cut(method, `"`)
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of capi-installer: %w", err)
		}
		counts[method] += int(number)
	}
	return counts, lines.Err()
}
