// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestNames_OfEveryPackage(t *testing.T) {
	root := writeFiles(t, map[string]string{
		"a.go":               "package a\n\nconst One, two = 1, 2\n\nvar Three int\n\nfunc Four() {}\n\nfunc NewFive() Five { return Five{} }\n\ntype Five struct{ Six, seven int }\n\nfunc (Five) Eight() {}\n",
		"b/b.go":             "package b\n\ntype Nine interface{ Ten() }\n\ntype eleven struct{}\n\nfunc (eleven) Twelve() {}\n",
		"b/b_test.go":        "package b\n\nfunc Test() {}\n",
		"b/original.go":      "//go:build boxcutter_compat\n\npackage b\n\nfunc Compat() {}\n",
		"internal/c/c.go":    "package c\n\nfunc Hidden() {}\n",
		"cmd/program/run.go": "package main\n\nfunc Run() {}\n",
	})
	names, err := exportedNames(root)
	want := []string{"a.Five", "a.Five.Eight", "a.Five.Six", "a.Four", "a.NewFive", "a.One", "a.Three", "b.Nine", "b.Nine.Ten"}
	if err != nil || !names.Equal(sets.New(want...)) {
		t.Errorf("%v, %v", sets.List(names), err)
	}
}

func TestDifferences_NamesAdditionsAndLosses(t *testing.T) {
	err := compareAPI(sets.New("a.Same", "a.Listed", "a.Listed.Member", "a.New"), sets.New("a.Same", "a.Missing"), sets.New("a.Listed", "a.Same"))
	for _, want := range []string{"missing here: a.Missing", "not in the list of additions: a.New", "but the original has it, or this module has not: a.Same"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
	if err := compareAPI(sets.New("a.Same", "a.Listed"), sets.New("a.Same"), sets.New("a.Listed")); err != nil {
		t.Error(err)
	}
}
