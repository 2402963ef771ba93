// SPDX-License-Identifier: Apache-2.0

// Package scratch makes temporary directories with files, for libraries that read files only.
package scratch

import (
	"errors"
	"os"
	"path/filepath"
)

// sharedMemory is a file system in memory that Linux containers have besides their disk.
const sharedMemory = "/dev/shm"

// Dir returns a new directory that has the files. It is in the preferred directory, created
// if missing; if that is empty or not writable, for example because its disk is full, in
// os.TempDir or in shared memory. The caller removes it.
func Dir(preferred, pattern string, files map[string][]byte) (string, error) {
	var failed []error
	for _, parent := range []string{preferred, os.TempDir(), sharedMemory} {
		if parent == "" {
			continue
		}
		dir, err := dirIn(parent, pattern, files)
		if err == nil {
			return dir, nil
		}
		failed = append(failed, err)
	}
	return "", errors.Join(failed...)
}

func dirIn(parent, pattern string, files map[string][]byte) (string, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return "", err
	}
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}
