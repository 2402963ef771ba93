// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// difference is a row of the list: a test that fails with the original.
type difference struct {
	suite, test string
	// versions of the original; empty means all.
	versions []string
}

func (d difference) in(version string) bool {
	return len(d.versions) == 0 || slices.Contains(d.versions, version)
}

// covers reports whether the row is about a test or one of its subtests.
func (d difference) covers(test string) bool {
	return test == d.test || strings.HasPrefix(test, d.test+"/")
}

// readDifferences reads the table with the columns suite, test, versions, the original, and why.
func readDifferences(path string) ([]difference, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []difference
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		suite, test, found := strings.Cut(strings.Trim(cells[0], "`"), " ")
		if len(cells) != 4 || !found || cells[2] == "" || cells[3] == "" {
			return nil, fmt.Errorf("%s: want suite and test, versions, behaviour and reason: %s", path, line)
		}
		row := difference{suite: suite, test: test}
		if cells[1] != "all" {
			row.versions = strings.Split(cells[1], ", ")
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// compare returns a line for each failure without a row, for each panic that ended a package, and for each row without a failure.
func compare(result result, rows []difference) []string {
	var problems []string
	for _, test := range result.failed {
		if !slices.ContainsFunc(rows, func(d difference) bool { return d.covers(test) }) {
			problems = append(problems, failedUnexpectedly+test+"\n"+result.output[test])
		}
	}
	for _, test := range result.panicked {
		problems = append(problems, "a panic ended the package, so that other tests did not run: "+test)
	}
	for _, row := range rows {
		if !slices.ContainsFunc(result.failed, row.covers) {
			problems = append(problems, "passed, or did not run, although the list has it: "+row.test)
		}
	}
	return problems
}

const failedUnexpectedly = "failed, and the list does not have it: "

// unexpected returns the number of failures without a row.
func unexpected(problems []string) (n int) {
	for _, problem := range problems {
		if strings.HasPrefix(problem, failedUnexpectedly) {
			n++
		}
	}
	return n
}
