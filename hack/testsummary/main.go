// SPDX-License-Identifier: Apache-2.0

// Command testsummary reads the output of go test -json and prints a line for each
// package, the output of tests that failed, and the number of skipped tests by reason.
// It exits with 1 after a failure.
//
//	go test -json ./... | testsummary
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	failed, err := summarize(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// event is a line of go test -json, see go doc cmd/test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// summary is the state of the tests of all packages.
type summary struct {
	out     io.Writer
	output  map[string][]string // by package and test, until the test ends
	skipped map[string]int      // by reason
	failed  bool
}

// summarize reads events to their end and reports whether there was a failure.
func summarize(in io.Reader, out io.Writer) (failed bool, err error) {
	s := &summary{out: out, output: map[string][]string{}, skipped: map[string]int{}}
	decoder := json.NewDecoder(in)
	for {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s.failed, fmt.Errorf("reading the output of go test -json: %w", err)
		}
		s.add(e)
	}
	for _, reason := range slices.Sorted(maps.Keys(s.skipped)) {
		fmt.Fprintf(out, "%d tests skipped: %s\n", s.skipped[reason], reason)
	}
	return s.failed, nil
}

func (s *summary) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		s.output[key] = append(s.output[key], e.Output)
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "build-fail":
		s.failed = true
	case "pass", "fail", "skip":
		s.end(e, key)
	}
}

// end counts a test or package that has ended.
func (s *summary) end(e event, key string) {
	output := s.output[key]
	delete(s.output, key)
	switch {
	case e.Action == "fail":
		s.failed = true
		fmt.Fprint(s.out, strings.Join(output, ""))
	case e.Test == "" && e.Action == "pass":
		fmt.Fprintf(s.out, "ok  \t%s\t%.1fs\n", e.Package, e.Elapsed)
	case e.Test != "" && e.Action == "skip":
		s.skipped[reason(output)]++
	}
}

// reason returns the message of a skipped test without its position.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		if _, message, found := strings.Cut(line, "_test.go:"); found {
			_, message, _ = strings.Cut(message, ": ")
			return strings.TrimSpace(message)
		}
	}
	return "no reason given"
}
