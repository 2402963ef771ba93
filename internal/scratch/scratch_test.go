// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unwritable is a directory that cannot be created: its parent is a file.
func unwritable(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(file, "dir")
}

func TestDir_FirstWritableParent(t *testing.T) {
	missing, temporary := filepath.Join(t.TempDir(), "missing"), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	for name, test := range map[string]struct{ preferred, want string }{
		"a missing directory is created": {missing, missing},
		"no preferred directory":         {"", temporary},
		"an unwritable directory":        {unwritable(t), temporary},
	} {
		dir, err := Dir(test.preferred, "test-", map[string][]byte{"a": []byte("content")})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		content, err := os.ReadFile(filepath.Join(dir, "a"))
		if filepath.Dir(dir) != test.want || string(content) != "content" || err != nil {
			t.Errorf("%s: %s has %q, %v; want it in %s", name, dir, content, err, test.want)
		}
	}
}

func TestDir_NoFileIsLeftAfterAnError(t *testing.T) {
	preferred, temporary := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	_, err := Dir(preferred, "test-", map[string][]byte{"missing/a": nil})
	if err == nil || !strings.Contains(err.Error(), preferred) || !strings.Contains(err.Error(), temporary) {
		t.Errorf("%v, want the errors of all parents", err)
	}
	for _, parent := range []string{preferred, temporary} {
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("%v, %v are left in %s", left, err, parent)
		}
	}
}
