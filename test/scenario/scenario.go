// SPDX-License-Identifier: Apache-2.0

// Package scenario runs tests that are archives (txtar) in testdata: the input files, followed by the expected output
// files.
package scenario

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// File is a file of an archive.
type File = txtar.File

// Archive is a comment and files.
type Archive = txtar.Archive

// Run runs a test for each archive that matches a pattern such as "testdata/render/*.txtar". goesIn selects the input
// files by name; run returns the output files. Run reports differences from the other files of the archive; with
// UPDATE=1 it rewrites them.
func Run(t *testing.T, pattern string, goesIn func(name string) bool, run func(t *testing.T, archive *Archive) []File) {
	t.Helper()
	for _, path := range matches(t, pattern) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := read(t, path)
			got := &Archive{Comment: archive.Comment}
			for _, file := range archive.Files {
				if goesIn(file.Name) {
					got.Files = append(got.Files, file)
				}
			}
			got.Files = append(got.Files, run(t, archive)...)
			Golden(t, path, string(txtar.Format(got)))
		})
	}
}

// Golden reports the differences between a file and the output of a test; with UPDATE=1 it writes the file.
func Golden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(ReadFile(t, path)), got); diff != "" {
		t.Errorf("%s (-want +got; UPDATE=1 rewrites):\n%s", path, diff)
	}
}

// Archives returns the archives that match a pattern.
func Archives(tb testing.TB, pattern string) (archives []*Archive) {
	tb.Helper()
	for _, path := range matches(tb, pattern) {
		archives = append(archives, read(tb, path))
	}
	return archives
}

// Only selects the files with these names; a name that ends in a slash selects all files below it.
func Only(names ...string) func(string) bool {
	return func(name string) bool {
		for _, one := range names {
			if name == one || strings.HasSuffix(one, "/") && strings.HasPrefix(name, one) {
				return true
			}
		}
		return false
	}
}

// AllBut selects the files with other names.
func AllBut(names ...string) func(string) bool {
	return func(name string) bool { return !Only(names...)(name) }
}

func matches(tb testing.TB, pattern string) []string {
	tb.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no archives at %s: %v", pattern, err)
	}
	return paths
}

func read(tb testing.TB, path string) *Archive {
	tb.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return archive
}

// ReadOptions decodes the file options.json of an archive into options. Without the file or a key, the options do not
// change.
func ReadOptions(tb testing.TB, archive *Archive, options any) {
	tb.Helper()
	for _, file := range archive.Files {
		if file.Name != "options.json" {
			continue
		}
		if err := json.Unmarshal(file.Data, options); err != nil {
			tb.Fatal(err)
		}
	}
}

// ReadFile returns the content of a file that the code under test has written.
func ReadFile(tb testing.TB, path string) []byte {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}
