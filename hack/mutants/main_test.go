// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	m, err := parse("description: a bug\ntest: ./install -run TestX\ndiff --git a/x b/x\n")
	must(t, err)
	want := mutant{description: "a bug", test: []string{"./install", "-run", "TestX"}, patch: "diff --git a/x b/x\n"}
	if diff := cmp.Diff(want, m, cmp.AllowUnexported(mutant{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := parse("diff --git a/x b/x\n"); err == nil {
		t.Error("a patch without header is accepted")
	}
}

func TestTable(t *testing.T) {
	got := table([]mutant{{name: "one", result: "TestA", found: true}, {name: "two", result: "not applied: x"}})
	for _, want := range []string{"find 1 of 2", "\none `TestA`\n", "\ntwo not found: not applied: x\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the table has no %q:\n%s", want, got)
		}
	}
}

// TestPatches_AreComplete checks the headers of the patches of the project.
func TestPatches_AreComplete(t *testing.T) {
	mutants, err := read("../../test/mutants")
	must(t, err)
	for _, m := range mutants {
		if !strings.Contains(m.patch, "\n+++ b/") || !strings.HasPrefix(m.test[0], "./") {
			t.Errorf("%s has no diff or no package to test", m.name)
		}
	}
}

var patchedFile = regexp.MustCompile(`(?m)^\+\+\+ b/(.+)$`)

// TestPatches_Apply fails after a change to code with a seeded bug: the patch must
// follow the change.
func TestPatches_Apply(t *testing.T) {
	mutants, err := read("../../test/mutants")
	must(t, err)
	for _, m := range mutants {
		// The go command does not know what git reads: without this it repeats a cached result after a change.
		for _, match := range patchedFile.FindAllStringSubmatch(m.patch, -1) {
			if _, err := os.Stat("../../" + match[1]); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		}
		if err := m.apply(t.Context(), "../..", "--check"); err != nil {
			t.Errorf("%s does not apply: %v", m.name, err)
		}
	}
}

// TestTable_HasEveryPatch fails until make mutants has run with a new patch.
func TestTable_HasEveryPatch(t *testing.T) {
	mutants, err := read("../../test/mutants")
	must(t, err)
	page, err := os.ReadFile("../../test/mutants/found.txt")
	must(t, err)
	for _, m := range mutants {
		if !strings.Contains(string(page), "\n"+m.name+" `Test") {
			t.Errorf("test/mutants/found.txt lacks the test that finds %s; run make mutants", m.name)
		}
	}
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
