// SPDX-License-Identifier: Apache-2.0

package capiinstaller

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/test/scenario"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestEmbeddedPrograms_AreUpToDate compares the archives that capi-manifests builds programs from with the sources. UPDATE=1 writes
// them.
func TestEmbeddedPrograms_AreUpToDate(t *testing.T) {
	for root, patterns := range map[string][]string{
		"test/controlplane":            {"go.mod", "go.sum", "*.go", "cmd/controlplane/*.go", "binary/go.mod", "binary/go.sum", "binary/*.go"},
		"test/clusterctl/corewebhooks": {"go.mod", "go.sum", "*.go"},
	} {
		embedded := "cmd/capi-manifests/internal/apiserver/" + filepath.Base(root) + ".txtar"
		scenario.Golden(t, embedded, string(archiveOf(t, root, patterns)))
	}
}

// archiveOf returns the files of a module that match patterns, except tests, as a txtar archive.
func archiveOf(t *testing.T, root string, patterns []string) []byte {
	t.Helper()
	archive := &txtar.Archive{Comment: []byte("The source of " + root + ", for --against embedded. Written by go generate.\n")}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			archive.Files = append(archive.Files, txtar.File{Name: filepath.ToSlash(name), Data: []byte(read(t, file))})
		}
	}
	return txtar.Format(archive)
}
