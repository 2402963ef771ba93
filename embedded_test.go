// SPDX-License-Identifier: Apache-2.0

package capiinstaller

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestEmbeddedControlPlane_IsUpToDate compares the archive that capi-manifests builds the control plane from with the
// source in test/controlplane. UPDATE=1 writes it.
func TestEmbeddedControlPlane_IsUpToDate(t *testing.T) {
	archive := &txtar.Archive{Comment: []byte("The source of test/controlplane, for --against embedded. Written by go generate.\n")}
	const root = "test/controlplane"
	for _, pattern := range []string{"go.mod", "go.sum", "*.go", "cmd/controlplane/*.go", "binary/go.mod", "binary/go.sum", "binary/*.go"} {
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
	want := txtar.Format(archive)
	const embedded = "cmd/capi-manifests/internal/apiserver/controlplane.txtar"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(embedded, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(embedded); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is out of date (%v); run go generate ./cmd/capi-manifests/internal/apiserver", embedded, err)
	}
}
