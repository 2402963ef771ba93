// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// result has the tests without subtests that passed or failed, as "TestName/subtest".
type result struct {
	passed, failed []string
	// panicked are the tests whose panic ended their package: its other tests may not have run.
	panicked []string
	output   map[string]string
}

// event is a line of go test -json, see go doc cmd/test2json.
type event struct {
	Action, Package, Test, Output string
}

// run runs the tests of a suite in a folder.
func (s suite) run(ctx context.Context, folder string) (result, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-count=1"}, s.arguments...)...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	exit, isExit := errors.AsType[*exec.ExitError](err)
	if err != nil && (!isExit || exit.ExitCode() != 1) {
		return result{}, fmt.Errorf("%w\n%s", err, errs.String())
	}
	result, readErr := readEvents(bytes.NewReader(out))
	if readErr != nil {
		return result, fmt.Errorf("%w\n%s", readErr, errs.String())
	}
	return result, nil
}

// readEvents reads the output of go test -json. A package that fails without a failed test is an error: it was not
// compiled, or ended early.
func readEvents(in io.Reader) (result, error) {
	out := result{output: map[string]string{}}
	outcome := map[string]string{}
	failed := map[string]bool{}
	var broken error
	decoder := json.NewDecoder(in)
	for {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, fmt.Errorf("reading the output of go test -json: %w", err)
		}
		switch {
		case e.Action == "output":
			out.output[e.Test] += e.Output
			if strings.HasPrefix(e.Output, "panic: ") {
				out.panicked = append(out.panicked, e.Test)
			}
		case e.Test == "" && e.Action == "fail" && !failed[e.Package]:
			broken = errors.Join(broken, fmt.Errorf("%s failed without a failed test:\n%s", e.Package, out.output[""]))
		case e.Test != "" && (e.Action == "pass" || e.Action == "fail"):
			outcome[e.Test] = e.Action
			failed[e.Package] = failed[e.Package] || e.Action == "fail"
		}
	}
	for test, action := range outcome {
		switch {
		case action == "pass":
			out.passed = append(out.passed, test)
		case !hasFailedSubtest(test, outcome):
			out.failed = append(out.failed, test)
		}
	}
	slices.Sort(out.failed)
	return out, broken
}

func hasFailedSubtest(test string, outcome map[string]string) bool {
	for other, action := range outcome {
		if action == "fail" && strings.HasPrefix(other, test+"/") {
			return true
		}
	}
	return false
}
