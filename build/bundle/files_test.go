// SPDX-License-Identifier: Apache-2.0

package bundle_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/test/scenario"
)

func TestWriteFiles_ReplacesFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "capi-manifests")
	for _, text := range []string{"one", "two"} {
		if err := bundle.WriteDirs(t.Context(), map[string]map[string][]byte{dir: {"a": []byte(text), "b": []byte(text)}}); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"a", "b"} {
			if got := string(scenario.ReadFile(t, filepath.Join(dir, file))); got != text {
				t.Errorf("%s: got %q, want %q", file, got, text)
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("unexpected entries %v (%v)", entries, err)
	}
}

func TestWriteDirs_AllOrNothing(t *testing.T) {
	dir := t.TempDir()
	file, first := filepath.Join(dir, "file"), filepath.Join(dir, "a", "b")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"c": []byte("c")}
	err := bundle.WriteDirs(t.Context(), map[string]map[string][]byte{first: files, filepath.Join(file, "below"): files})
	if err == nil || !strings.Contains(err.Error(), "writing "+filepath.Join(file, "below")) || !errors.As(err, new(*fs.PathError)) {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("unexpected entries %v (%v)", entries, err)
	}
	if err := bundle.WriteDirs(t.Context(), map[string]map[string][]byte{first: files, dir: files}); err != nil {
		t.Fatal(err)
	}
	for _, written := range []string{filepath.Join(first, "c"), filepath.Join(dir, "c")} {
		if got := string(scenario.ReadFile(t, written)); got != "c" {
			t.Errorf("%s has content %q", written, got)
		}
	}
}
