// SPDX-License-Identifier: Apache-2.0

// Package generated writes the files that the programs in hack generate, and compares them with the committed ones.
package generated

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Main is the main function of a program with the root of the repository as its argument: it writes the files that a function returns by their
// paths in the repository.
func Main(generate func(root string) (map[string][]byte, error)) {
	root := os.Args[1]
	files, err := generate(root)
	for name, content := range files {
		file := filepath.Join(root, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Committed fails a test in a folder of hack unless the files are committed, and returns them.
func Committed(t *testing.T, generate func(root string) (map[string][]byte, error)) map[string][]byte {
	t.Helper()
	files, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../..", name))
		if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
			t.Errorf("%s differs (%v); run make generate (-want +got):\n%s", name, err, diff)
		}
	}
	return files
}
