// SPDX-License-Identifier: Apache-2.0

package ocilayout

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path"
)

// maxEntries is the maximum number of entries of an archive.
const maxEntries = 10_000

// archive is a layout in a tar archive, with the position of each regular file.
type archive struct {
	file    string
	entries map[string]extent
}

// extent is the position of an entry's content in the archive, in bytes.
type extent struct{ offset, size int64 }

func (a *archive) open(name string) (io.ReadCloser, int64, error) {
	at, found := a.entries[name]
	if !found {
		return nil, 0, invalid("%s not found in the archive", name)
	}
	file, err := os.Open(a.file)
	if err != nil {
		return nil, 0, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, at.offset, at.size), file}, at.size, nil
}

// openArchive finds the entries of an archive. The error is ErrNotLayout if it has no index.json.
func openArchive(name string) (*archive, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	a := &archive{file: name, entries: map[string]extent{}}
	if err := a.index(file); err != nil {
		return nil, err
	}
	if _, found := a.entries[indexFile]; !found {
		return nil, ErrNotLayout
	}
	return a, nil
}

func (a *archive) index(file *os.File) error {
	reader := tar.NewReader(file)
	for n := 0; ; n++ {
		header, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && n == 0:
			return ErrNotLayout
		case err != nil:
			return invalid("reading the archive: %w", err)
		case n >= maxEntries:
			return invalid("archive exceeds the limit of %d entries", maxEntries)
		case header.Typeflag != tar.TypeReg:
			continue
		}
		offset, err := file.Seek(0, io.SeekCurrent) // the tar reader stops after the header
		if err != nil {
			return err
		}
		name := path.Clean(header.Name)
		if _, twice := a.entries[name]; twice {
			return invalid("duplicate archive entry %q", name)
		}
		a.entries[name] = extent{offset, header.Size}
	}
}
