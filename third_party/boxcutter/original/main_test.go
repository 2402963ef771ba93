// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const events = `{"Action":"output","Package":"p","Test":"TestA/b","Output":"wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA/b"}
{"Action":"pass","Package":"p","Test":"TestA/c"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestD"}
{"Action":"fail","Package":"p"}
`

func TestCompare_ReportsOtherFailuresAndStaleRows(t *testing.T) {
	result, err := readEvents(strings.NewReader(events))
	if err != nil || strings.Join(result.failed, " ") != "TestA/b" || len(result.passed) != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	for name, test := range map[string]struct {
		rows []difference
		want string
	}{
		"no row":              {nil, failedUnexpectedly + "TestA/b\nwrong\n"},
		"the row of the test": {[]difference{{test: "TestA/b"}}, ""},
		"a row of its parent": {[]difference{{test: "TestA"}}, ""},
		"a stale row":         {[]difference{{test: "TestA"}, {test: "TestD"}}, "passed, or did not run, although the list has it: TestD"},
	} {
		if got := strings.Join(compare(result, test.rows), "\n"); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestReadEvents_PanicEndsAPackage(t *testing.T) {
	result, err := readEvents(strings.NewReader(`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: wrong\n"}{"Action":"fail","Package":"p","Test":"TestA"}{"Action":"fail","Package":"p"}`))
	problems := strings.Join(compare(result, []difference{{test: "TestA"}}), "\n")
	if err != nil || !strings.Contains(problems, "other tests did not run: TestA") {
		t.Errorf("got %q, %v", problems, err)
	}
}

func TestReadEvents_PackageWithoutFailedTest(t *testing.T) {
	_, err := readEvents(strings.NewReader(`{"Action":"output","Package":"p","Output":"does not compile\n"}{"Action":"fail","Package":"p"}`))
	if err == nil || !strings.Contains(err.Error(), "does not compile") {
		t.Errorf("got %v", err)
	}
}

func TestDifferences_Read(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.md")
	write := func(rows string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("| test | versions | the original | why |\n|---|---|---|---|\n"+rows), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("| `conformance TestA/b` | v1, newer | panics | safer |\n| `install TestB` | all | waits | needed |\n")
	rows, err := readDifferences(path)
	if err != nil || len(rows) != 2 || !rows[0].in("newer") || rows[0].in("v2") || !rows[1].in("v2") || rows[0].suite != "conformance" || rows[0].test != "TestA/b" {
		t.Errorf("%+v, %v", rows, err)
	}
	write("| `conformance TestA/b` | all | panics | |\n")
	if _, err := readDifferences(path); err == nil {
		t.Error("a row without a reason is accepted")
	}
}

func TestDifferences_CommittedList(t *testing.T) {
	rows, err := readDifferences("differences.md")
	if err != nil || len(rows) > 12 {
		t.Errorf("%d rows, %v; want at most 12", len(rows), err)
	}
}

func TestRun_RejectsUnknownSuites(t *testing.T) {
	if err := run(t.Context(), "", "instal"); err == nil || !strings.Contains(err.Error(), "api, conformance, install, e2e") {
		t.Errorf("got %v, want the known suites", err)
	}
}
