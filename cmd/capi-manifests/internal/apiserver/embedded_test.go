// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The program builds the control plane from the module of its directory, for any working directory of the user.
func TestEmbedded_RunsInTheDirectoryOfTheProgram(t *testing.T) {
	t.Setenv(binaryEnv, "")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program, link := filepath.Join(dir, "controlplane"), filepath.Join(t.TempDir(), "link")
	if err := os.WriteFile(program, []byte("#!/bin/sh\npwd >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	for _, called := range []string{program, link} {
		_, _, _, err = startEmbedded(t.Context(), called, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "\n"+dir) {
			t.Errorf("%s: error %v, want the output of the program in %s", called, err, dir)
		}
	}
}
