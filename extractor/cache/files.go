// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	asidePrefix = ".aside-"
	asideTime   = time.Hour
	// justUsed is the precision of the recorded time of the last use.
	justUsed = time.Minute
	block    = 4 << 10 // size of the smallest file in bytes
	chunk    = 1 << 20 // bytes of one write
)

// files are the files of a store. Other processes may write and remove them at the same time.
type files struct {
	// step is called before each write operation in tests. If it returns an error, the operation
	// fails with this error.
	step func(operation string) error
}

// storedFile is a file of the store.
type storedFile struct {
	file string
	used time.Time
	size int64
}

// readFile reads a regular file of at most maxEntry bytes.
func readFile(name string) ([]byte, error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() { // opening a named pipe blocks
		return nil, fmt.Errorf("reading %s: not a regular file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxEntry:
		return nil, fmt.Errorf("reading %s: not a regular file of at most %d bytes", name, maxEntry)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return data, nil
}

// list returns the entries in a directory, and removes temporary files of killed processes.
func (f files) list(dir string) (entries []storedFile, err error) {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range found {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // another process removed it, or it is not an entry
		}
		file := filepath.Join(dir, entry.Name())
		if strings.HasPrefix(entry.Name(), asidePrefix) {
			if time.Since(info.ModTime()) > asideTime {
				_ = f.remove(file) // the next call tries again
			}
			continue
		}
		entries = append(entries, storedFile{file, info.ModTime(), blocks(info.Size())})
	}
	return entries, err
}

// blocks rounds a size up to whole blocks.
func blocks(size int64) int64 { return (size + block - 1) / block * block }

// write writes a temporary file and renames it.
func (f files) write(file string, data []byte) error {
	dir := filepath.Dir(file)
	if err := f.do("mkdir", func() error { return os.MkdirAll(dir, 0o755) }); err != nil {
		return err
	}
	var aside *os.File
	err := f.do("create", func() (err error) {
		aside, err = os.CreateTemp(dir, asidePrefix+"*")
		return err
	})
	if err != nil {
		return err
	}
	err = errors.Join(f.fill(aside, data), aside.Close())
	if err == nil {
		err = f.do("rename", func() error { return os.Rename(aside.Name(), file) })
	}
	if err != nil {
		return errors.Join(err, f.remove(aside.Name()))
	}
	return nil
}

func (f files) fill(file *os.File, data []byte) error {
	for part := range slices.Chunk(data, chunk) {
		err := f.do("write", func() error {
			_, err := file.Write(part)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// do executes a write operation.
func (f files) do(operation string, change func() error) error {
	if f.step != nil {
		if err := f.step(operation); err != nil {
			return err
		}
	}
	return change()
}

func (f files) remove(file string) error {
	err := f.do("remove", func() error { return os.Remove(file) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process removed it
	}
	return err
}

// markUsed sets the modification time of a file to now. If that fails, the file may be evicted early.
func (f files) markUsed(file string) {
	now := time.Now()
	if info, err := os.Stat(file); err == nil && now.Sub(info.ModTime()).Abs() > justUsed {
		_ = f.do("touch", func() error { return os.Chtimes(file, now, now) })
	}
}
