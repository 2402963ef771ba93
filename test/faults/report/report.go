// SPDX-License-Identifier: Apache-2.0

// Package report shows the results of the fault suite: a table of workloads by faults,
// and an HTML page with a timeline per run.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
)

// Run is one workload under one fault.
type Run struct {
	// Workload and Fault name the row and the column of the table.
	Workload, Fault string
	// Point tells when the fault is injected, such as "write 3"; may be empty.
	Point string
	// Happened is the number of injected faults.
	Happened int
	// Problems are the differences from the run without faults, and the violated invariants. A
	// run without problems has passed.
	Problems []string
	// Memory is the maximum resident memory of the program in MiB; 0 if it is unknown.
	Memory float64
	// Began is the start of the run; Events are in order of time.
	Began  time.Time
	Events []Event
}

// Event is an entry of a timeline.
type Event struct {
	Time time.Time
	// Kind is "write", "fault", "process" or "condition".
	Kind string
	Text string
}

// Passed reports whether the run has no problems.
func (r Run) Passed() bool { return len(r.Problems) == 0 }

// After returns the time of an event since the start of the run.
func (r Run) After(e Event) string { return fmt.Sprintf("%.3f s", e.Time.Sub(r.Began).Seconds()) }

// Table writes the number of passed runs and of all runs, by workload and fault, and the maximum memory of all runs.
func Table(w io.Writer, runs []Run) {
	workloads, faults := names(runs)
	fmt.Fprintf(w, "| workload | %s |\n|---|%s\n", strings.Join(faults, " | "), strings.Repeat("---|", len(faults)))
	for _, workload := range workloads {
		cells := []string{}
		for _, fault := range faults {
			cells = append(cells, count(runs, func(r Run) bool { return r.Workload == workload && r.Fault == fault }))
		}
		fmt.Fprintf(w, "| %s | %s |\n", workload, strings.Join(cells, " | "))
	}
	fmt.Fprintf(w, "\n%s runs passed\n", count(runs, func(Run) bool { return true }))
	if highest := memory(runs); highest > 0 {
		fmt.Fprintf(w, "maximum resident memory: %.0f MiB\n", highest)
	}
}

// memory returns the maximum memory of all runs.
func memory(runs []Run) (highest float64) {
	for _, run := range runs {
		highest = max(highest, run.Memory)
	}
	return highest
}

// count returns "<passed> of <all>" for the chosen runs, or "-" if there are
// none.
func count(runs []Run, chosen func(Run) bool) string {
	passed, all := 0, 0
	for _, run := range runs {
		if !chosen(run) {
			continue
		}
		all++
		if run.Passed() {
			passed++
		}
	}
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", passed, all)
}

// names returns the workloads and the faults in the order of their first runs.
func names(runs []Run) (workloads, faults []string) {
	for _, run := range runs {
		if !slices.Contains(workloads, run.Workload) {
			workloads = append(workloads, run.Workload)
		}
		if !slices.Contains(faults, run.Fault) {
			faults = append(faults, run.Fault)
		}
	}
	return workloads, faults
}

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Parse(page))

// HTML writes a page with the table and the timeline of every run.
func HTML(w io.Writer, title string, runs []Run) error {
	var table strings.Builder
	Table(&table, runs)
	return pageTemplate.Execute(w, struct {
		Title, Table string
		Runs         []Run
	}{title, table.String(), runs})
}
