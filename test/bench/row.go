// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// rowIDs are the rows of the table, in their order. docs/maintainers/performance.md explains each.
var rowIDs = []string{
	"extract-packed", "extract-restarted", "extract-changed", "extract-squashed", "extract-squashed-restarted", "extract-empty",
	"first-write", "install", "repair", "upgrade-one", "upgrade-all", "restart", "memory-peak", "memory-rest",
	"load-first-write", "load-install", "load-restart", "load-memory-peak", "load-memory-rest",
}

// cost is the cost of one program. A zero field was not measured, except Requests and Bytes.
type cost struct {
	// Program names the program.
	Program string `json:"program"`
	// Seconds is the wall time, and CPU the user and system time in seconds.
	Seconds float64 `json:"seconds,omitempty"`
	CPU     float64 `json:"cpuSeconds,omitempty"`
	// ServerCPU is the user and system time of the API server in the same time, in seconds.
	ServerCPU float64 `json:"serverCPUSeconds,omitempty"`
	// Requests is the number of requests to the API server, or to the registry in rows of the extractor.
	Requests int `json:"requests"`
	// Verbs are the requests of a rollout by verb.
	Verbs verbs `json:"requestsByVerb,omitempty"`
	// Bytes is the number of bytes of bodies that were read.
	Bytes int64 `json:"bytes,omitempty"`
	// Memory is the resident memory of the largest process, in bytes.
	Memory int64 `json:"memory,omitempty"`
}

// verbs are numbers of requests by verb; dry runs have the verb "dry run".
type verbs map[string]int

func (v verbs) sum() (sum int) {
	for _, count := range v {
		sum += count
	}
	return sum
}

// since returns the requests that came after others.
func (v verbs) since(before verbs) verbs {
	out := verbs{}
	for verb, count := range v {
		if added := count - before[verb]; added > 0 {
			out[verb] = added
		}
	}
	return out
}

// least returns the lower figures of two runs of a program.
func (c cost) least(other cost) cost {
	return cost{
		Program: c.Program, Seconds: min(c.Seconds, other.Seconds), CPU: min(c.CPU, other.CPU), ServerCPU: min(c.ServerCPU, other.ServerCPU),
		Requests: min(c.Requests, other.Requests), Bytes: min(c.Bytes, other.Bytes), Memory: min(c.Memory, other.Memory),
	}
}

// row is a row of the table: the same task for our program and its peers.
type row struct {
	ID string `json:"id"`
	// RoundTrip is the added latency of each request, in milliseconds.
	RoundTrip int64 `json:"roundTripMilliseconds"`
	// Workload is the size of the task. Only rows of the same workload are comparable.
	Workload string `json:"workload"`
	Ours     cost   `json:"ours"`
	Peers    []cost `json:"peers,omitempty"`
	// Growth is true if the first peer is our program with a quarter of the load. Other peers come after it in pairs: a program, and
	// the same with a quarter of the load.
	Growth bool `json:"growth,omitempty"`
}

// name identifies a row of a run.
func (r row) name() string { return fmt.Sprintf("%s at %d ms", r.ID, r.RoundTrip) }

// results are the rows of one run.
type results struct {
	Rows []row `json:"rows"`
}

// add adds rows.
func (r *results) add(rows ...row) error {
	for _, row := range rows {
		if !slices.Contains(rowIDs, row.ID) {
			return fmt.Errorf("unknown row %q", row.ID)
		}
	}
	r.Rows = append(r.Rows, rows...)
	return nil
}

// find returns the row with the name and the workload of another one.
func (r results) find(like row) (row, bool) {
	for _, row := range r.Rows {
		if row.name() == like.name() && row.Workload == like.Workload {
			return row, true
		}
	}
	return row{}, false
}

// merge returns the results with the rows of newer in place of those with the same names.
func (r results) merge(newer results) results {
	kept := slices.DeleteFunc(slices.Clone(r.Rows), func(old row) bool {
		return slices.ContainsFunc(newer.Rows, func(row row) bool { return row.name() == old.name() })
	})
	merged := slices.Concat(kept, newer.Rows)
	slices.SortFunc(merged, func(a, b row) int {
		return cmp.Or(slices.Index(rowIDs, a.ID)-slices.Index(rowIDs, b.ID), int(a.RoundTrip-b.RoundTrip))
	})
	return results{Rows: merged}
}

func readResults(file string) (r results, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return r, fmt.Errorf("parsing %s: %w", file, err)
	}
	return r, nil
}

func (r results) write(file string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}
