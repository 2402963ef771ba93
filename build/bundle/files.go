// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// WriteError reports that Path could not be written.
type WriteError struct {
	Path string
	Err  error
}

func (e *WriteError) Error() string { return fmt.Sprintf("writing %s: %v", e.Path, e.Err) }
func (e *WriteError) Unwrap() error { return e.Err }

// WriteDirs creates directories and writes files to them: contents by the path of the directory and the base name of the file.
// It first writes all files to temporary directories and then renames them. If ctx ends before the renames, nothing changes.
// Errors are of type *WriteError.
func WriteDirs(ctx context.Context, dirs map[string]map[string][]byte) (err error) {
	var prepared []preparedFiles
	defer func() {
		for _, p := range slices.Backward(prepared) {
			p.end(err != nil)
		}
	}()
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		p, err := prepare(ctx, dir, dirs[dir])
		prepared = append(prepared, p)
		if err != nil {
			return &WriteError{dir, err}
		}
	}
	if err := ctx.Err(); err != nil {
		return &WriteError{strings.Join(slices.Sorted(maps.Keys(dirs)), ", "), err}
	}
	for _, p := range prepared {
		if err := p.place(); err != nil {
			return &WriteError{p.dir, err}
		}
	}
	return nil
}

// preparedFiles are files that were written to the directory aside, to be renamed
// into dir.
type preparedFiles struct {
	dir, aside string
	names      []string
	// made are the directories that were created for dir, the deepest first.
	made []string
}

func prepare(ctx context.Context, dir string, files map[string][]byte) (p preparedFiles, err error) {
	if err := ctx.Err(); err != nil {
		return p, err
	}
	p = preparedFiles{dir: dir, names: slices.Sorted(maps.Keys(files)), made: missingDirs(dir)}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return p, err
	}
	if p.aside, err = os.MkdirTemp(dir, ".new-*"); err != nil {
		return p, err
	}
	for _, name := range p.names {
		if err := os.WriteFile(filepath.Join(p.aside, name), files[name], 0o644); err != nil {
			return p, err
		}
	}
	return p, nil
}

// missingDirs returns a directory and its parents that do not exist, the deepest
// first.
func missingDirs(dir string) (missing []string) {
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		missing = append(missing, dir)
		dir = filepath.Dir(dir)
	}
}

func (p preparedFiles) place() error {
	for _, name := range p.names {
		if err := os.Rename(filepath.Join(p.aside, name), filepath.Join(p.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// end removes temporary files, and after a failure also the new directories that
// are empty.
func (p preparedFiles) end(failed bool) {
	if p.aside != "" {
		_ = os.RemoveAll(p.aside)
	}
	if failed {
		for _, dir := range p.made {
			_ = os.Remove(dir)
		}
	}
}
