// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capi-installer/capi-installer/internal/text"
	"github.com/capi-installer/capi-installer/test/installation"
)

// startOperator starts capi-installer, the real binary with the credentials of its own service account as in a cluster, and
// shows its log as it is written.
func (d *demo) startOperator(release release) (*installation.Process, error) {
	log, err := os.OpenFile(filepath.Join(d.dir, "capi-installer.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	show := func(line []byte) {
		fmt.Fprintf(log, "%s\n", line)
		d.show(line)
	}
	d.ImagesJSON = release.imagesJSON
	p, err := installation.Launch(d.binary("capi-installer"), os.Environ(), show, append(d.Arguments(release.version), "--leader-elect")...)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		<-p.Exited
		log.Close()
	}()
	return p, nil
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

// show shows a line of the log if it is part of the story.
func (d *demo) show(line []byte) {
	var e entry
	if json.Unmarshal(line, &e) != nil {
		return
	}
	if text := e.text(); text != "" {
		d.screen.line("%s", text)
	}
}

func (e entry) text() string {
	switch e.Message {
	case "New desired version":
		return "decided on version " + e.Version
	case "Phase complete":
		return fmt.Sprintf("%-9s %-39s %3d of %3d ready", e.Version, e.Phase, e.Ready, e.Objects)
	case "Phase waiting":
		return fmt.Sprintf("%-9s %-39s %3d of %3d ready, waiting for %s", e.Version, e.Phase, e.Ready, e.Objects, e.For)
	case "Retiring version":
		return "retiring version " + e.Version
	case "Removing version":
		return fmt.Sprintf("removing the objects that only %s has; remaining: %s", e.Version, cmp.Or(brief(e.WaitsFor), "none"))
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

// requests returns the number of requests that capi-installer has sent to the API server, by method.
func (d *demo) requests(ctx context.Context) (map[string]int, error) {
	metrics, err := d.operator.ReadMetrics(ctx)
	counts := map[string]int{}
	for method, count := range metrics.By("rest_client_requests_total", "method") {
		counts[method] = int(count)
	}
	return counts, err
}
