// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/faults"
	"github.com/capi-installer/capi-installer/test/faults/report"
)

// disturbance is a fault that a workload has to survive.
type disturbance struct {
	name string
	// everyWrite is true if there is one run for each write of the workload.
	everyWrite bool
	// user is true for changes that a user makes in the middle of the workload: the end
	// has the same content, but objects may be created again, by other requests.
	user bool
	// terminal is true for faults that the API server gives as final answers: Degraded may be True.
	terminal bool
	// arm prepares the fault before the workload begins, for its nth write if
	// everyWrite or user. The returned function returns the number of injected faults.
	arm func(c *cycle, n int) (happened func() int)
	// after disturbs the end of the workload; nil if that is all.
	after func(c *cycle)
	// cleanup ends the disturbance after the workload; nil if Heal is all.
	cleanup func(c *cycle)
}

// disturbances are all faults of the suite.
func disturbances() []disturbance {
	all := []disturbance{
		{name: "crash before a write", everyWrite: true, arm: func(c *cycle, n int) func() int {
			return c.proxy.Fail(faults.Fault{Verbs: faults.Writes, Every: n, Times: 1, Do: c.crash, Reset: true})
		}},
		{name: "crash after a write", everyWrite: true, arm: func(c *cycle, n int) func() int {
			return c.proxy.Fail(faults.Fault{Verbs: faults.Writes, Every: n, Times: 1, After: c.crash, Lose: true})
		}},
		{name: "frozen watches", arm: func(c *cycle, _ int) func() int {
			c.proxy.Freeze()
			time.AfterFunc(3*time.Second, c.proxy.Thaw)
			return once
		}},
		{name: "watches cut and expired", arm: func(c *cycle, _ int) func() int {
			gone := c.proxy.Fail(faults.Fault{Verbs: []string{faults.Watch}, Every: 3, Times: 60, Status: http.StatusGone})
			cut := c.proxy.Fail(faults.Fault{Verbs: []string{faults.Watch}, Times: 120, Cut: 300 * time.Millisecond})
			return func() int { return gone() + cut() }
		}},
		{name: "restart with stale lists", arm: func(c *cycle, _ int) func() int {
			c.recordLists()
			return once
		}, after: func(c *cycle) {
			c.proxy.ServeStaleLists()
			c.proxy.Freeze()
			c.crash()
			time.AfterFunc(3*time.Second, c.proxy.Thaw)
		}},
		{name: "API server down", arm: func(c *cycle, _ int) func() int {
			down := 5 * time.Second
			if full {
				down = time.Minute
			}
			time.AfterFunc(500*time.Millisecond, func() {
				_ = c.proxy.Down() // an error shows as a workload that ends undisturbed
				time.AfterFunc(down, func() { _ = c.proxy.Up() })
			})
			return once
		}},
	}
	return slices.Concat(all, apiFaults(), eventFaults(), userFaults(), processFaults())
}

// eventFaults happen to single events of watches.
func eventFaults() (all []disturbance) {
	for name, fault := range map[string]faults.EventFault{
		"events lost":      {Effect: faults.DropEvent, Every: 5, Times: 20},
		"events repeated":  {Effect: faults.RepeatEvent},
		"events delayed":   {Effect: faults.DelayEvent, Every: 7, Times: 20},
		"bookmarks lost":   {Effect: faults.DropBookmarks},
		"first event lost": {Effect: faults.DropEvent, Times: 1},
	} {
		all = append(all, disturbance{name: name, arm: func(c *cycle, _ int) func() int { return c.proxy.FailEvents(fault) }})
	}
	slices.SortFunc(all, func(a, b disturbance) int { return strings.Compare(a.name, b.name) })
	return all
}

// userFaults are changes that a user makes at the nth write of the installer.
func userFaults() []disturbance {
	atWrite := func(change func(c *cycle)) func(*cycle, int) func() int {
		return func(c *cycle, n int) func() int {
			return c.proxy.Fail(faults.Fault{Verbs: faults.Writes, Every: n, Times: 1, Do: func() { change(c) }})
		}
	}
	return []disturbance{
		{name: "user deletes objects", user: true, arm: atWrite((*cycle).deleteObjects)},
		{name: "user edits objects", user: true, arm: atWrite((*cycle).editObjects)},
		{name: "user edits the status", user: true, arm: atWrite((*cycle).editStatus)},
		{name: "images.json rewritten 100 times", arm: func(*cycle, int) func() int { return once }, after: (*cycle).rewriteImages},
	}
}

// processFaults are those of several processes, and of the lease that they compete for.
func processFaults() []disturbance {
	return []disturbance{
		{name: "two processes without a lease", arm: func(c *cycle, _ int) func() int {
			c.startSecond()
			return once
		}, cleanup: (*cycle).endSecond},
		{name: "the leader crashes", arm: func(c *cycle, n int) func() int {
			c.elect()
			c.startSecond()
			return c.proxy.Fail(faults.Fault{Verbs: faults.Writes, Every: n, Times: 1, Do: c.crash})
		}, cleanup: (*cycle).endElection},
		{name: "the lease is lost during a write", arm: func(c *cycle, n int) func() int {
			c.elect()
			c.ensureRunning()
			return c.proxy.Fail(faults.Fault{Verbs: faults.Writes, Every: n, Times: 1, Delay: 6 * time.Second, Do: func() {
				c.proxy.Fail(faults.Fault{Path: "/leases", Times: 10, Status: http.StatusInternalServerError})
			}})
		}, cleanup: (*cycle).endElection},
	}
}

func once() int { return 1 }

// apiFaults fail the first attempt of each write, or of each read.
func apiFaults() (all []disturbance) {
	for _, f := range []struct {
		name     string
		verbs    []string
		fault    faults.Fault
		terminal bool
	}{
		{"409 at writes", faults.Writes, faults.Fault{Status: http.StatusConflict}, false},
		{"429 at writes", faults.Writes, faults.Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Second}, false},
		{"500 at writes", faults.Writes, faults.Fault{Status: http.StatusInternalServerError}, false},
		{"503 at writes", faults.Writes, faults.Fault{Status: http.StatusServiceUnavailable}, false},
		{"504 at writes", faults.Writes, faults.Fault{Status: http.StatusGatewayTimeout}, false},
		{"403 at writes", faults.Writes, faults.Fault{Status: http.StatusForbidden}, false},
		{"413 at writes", faults.Writes, faults.Fault{Status: http.StatusRequestEntityTooLarge}, true},
		{"422 at writes", faults.Writes, faults.Fault{Status: http.StatusUnprocessableEntity}, true},
		{"504 after writes", faults.Writes, faults.Fault{Status: http.StatusGatewayTimeout, Late: true}, false},
		{"reset before writes", faults.Writes, faults.Fault{Reset: true}, false},
		{"reset after writes", faults.Writes, faults.Fault{Lose: true}, false},
		{"500 at reads", []string{faults.Get}, faults.Fault{Status: http.StatusInternalServerError}, false},
		{"503 at reads", []string{faults.Get}, faults.Fault{Status: http.StatusServiceUnavailable}, false},
		{"404 at reads of kinds", []string{faults.Get}, faults.Fault{Path: "/apis", Status: http.StatusNotFound}, false},
		{"reset of reads", []string{faults.Get}, faults.Fault{Reset: true}, false},
	} {
		f.fault.Verbs, f.fault.EachOnce = f.verbs, true
		if f.name == "404 at reads of kinds" {
			continue // a 404 for a group of discovery is not temporary: the kind is not served
		}
		all = append(all, disturbance{name: f.name, terminal: f.terminal, arm: func(c *cycle, _ int) func() int { return c.proxy.Fail(f.fault) }})
	}
	return all
}

// chosenDisturbances are those whose name matches the regular expression FAULTS; without
// it, all.
func chosenDisturbances() []disturbance {
	chosen := regexp.MustCompile(os.Getenv("FAULTS"))
	return slices.DeleteFunc(disturbances(), func(d disturbance) bool { return !chosen.MatchString(d.name) })
}

// shards is the number of clusters over which the writes of a workload are distributed.
const shards = 4

// TestFaults runs every workload under every fault: it must end like an undisturbed run.
// Without E2E=full it is one fault per workload: of all workloads, chosen by FAULTS_SEED,
// or always the same ones of the sampled workloads.
func TestFaults(t *testing.T) {
	t.Parallel()
	results := &results{}
	t.Cleanup(func() { results.write(t) })
	if !full {
		t.Run("sample", func(t *testing.T) { sample(t, results) })
		return
	}
	for _, d := range chosenDisturbances() {
		if !d.everyWrite {
			t.Run(d.name, func(t *testing.T) {
				c := newCycle(t, results, workloads)
				c.disturbed(func(w workload) (disturbance, int) { return d, 1 + c.writes[w.name]/2 })
			})
			continue
		}
		for shard := range shards {
			t.Run(fmt.Sprintf("%s/%d of %d", d.name, shard+1, shards), func(t *testing.T) {
				c := newCycle(t, results, workloads)
				for n := 1 + shard; n <= c.mostWrites(); n += shards {
					c.disturbed(func(workload) (disturbance, int) { return d, n })
				}
			})
		}
	}
}

// sample runs each workload under one fault.
func sample(t *testing.T, results *results) {
	chosen := slices.DeleteFunc(slices.Clone(workloads), func(w workload) bool { return !w.sampled })
	seed, err := strconv.ParseUint(os.Getenv("FAULTS_SEED"), 10, 64)
	if err == nil {
		chosen = workloads
	}
	random, all := rand.New(rand.NewPCG(seed, 0)), chosenDisturbances()
	c := newCycle(t, results, chosen)
	c.disturbed(func(w workload) (disturbance, int) {
		return all[random.IntN(len(all))], 1 + random.IntN(c.writes[w.name])
	})
}

// results are the runs of all clusters.
type results struct {
	mutex sync.Mutex
	runs  []report.Run
}

func (r *results) add(run report.Run) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.runs = append(r.runs, run)
}

// write writes the report into the folder _output of the project.
func (r *results) write(t *testing.T) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var table, page bytes.Buffer
	report.Table(&table, r.runs)
	if err := report.HTML(&page, "Faults", r.runs); err != nil {
		t.Error(err)
	}
	dir := filepath.Join("..", "..", "_output")
	err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "faults.md"), table.Bytes(), 0o600), os.WriteFile(filepath.Join(dir, "faults.html"), page.Bytes(), 0o600))
	if err != nil {
		t.Error(err)
	}
}
