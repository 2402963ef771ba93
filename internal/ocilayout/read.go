// SPDX-License-Identifier: Apache-2.0

// Package ocilayout reads and writes OCI image layouts, as directories and as tar
// archives (https://github.com/opencontainers/image-spec/blob/main/image-layout.md). A
// layout must have one entry: an image or an image index.
//
//	err := ocilayout.Write(ctx, "out/image", image, "quay.io/example/provider:v1")
//	entry, err := ocilayout.Read("out/image") // a v1.Image or a v1.ImageIndex
//
// Layouts are untrusted input: archives are not unpacked, only regular files are opened,
// sizes are limited, and manifests and configs are verified against their digests. Layers
// are not verified here, because every consumer (remote.FromImage, Write, the registry
// during a push) computes their digests.
package ocilayout

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/capi-installer/capi-installer/internal/lazyimage"
)

// maxMetadata is the maximum size of an index, a manifest or a config, in bytes.
const maxMetadata = 4 << 20

const (
	markerFile = "oci-layout"
	indexFile  = "index.json"
)

// ErrNotLayout is the error of Read for a file that is not an archive of a layout.
var ErrNotLayout = errors.New("not an OCI archive: index.json not found")

func invalid(format string, args ...any) error {
	return &lazyimage.InvalidError{Err: fmt.Errorf(format, args...)}
}

// IsDir reports whether dir is an OCI image layout, that is, has a file
// oci-layout.
func IsDir(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, markerFile))
	return err == nil && info.Mode().IsRegular()
}

// Read returns the entry of the layout at path, a directory or a tar archive: a v1.Image or a v1.ImageIndex
// that reads the layout lazily. The error is ErrNotLayout for any other archive, an *lazyimage.InvalidError
// for a layout that is corrupt or does not have exactly one entry, and an I/O error otherwise.
func Read(path string) (mutate.Appendable, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return (&layout{directory(path)}).entry()
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	archive, err := openArchive(path)
	if err != nil {
		return nil, err
	}
	return (&layout{archive}).entry()
}

// storage opens the files of a layout by their slash-separated names.
type storage interface {
	open(name string) (content io.ReadCloser, size int64, err error)
}

// directory is a layout in a directory. Symlinks that lead out of it are not
// followed.
type directory string

func (d directory) open(name string) (io.ReadCloser, int64, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, 0, invalid("%s not found in the layout", name)
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular(): // opening a named pipe could block
		return nil, 0, invalid("%s is not a regular file", name)
	}
	file, err := root.Open(name)
	return file, info.Size(), err
}

// layout reads the blobs of a layout.
type layout struct{ storage }

// entry returns the only entry of index.json.
func (l *layout) entry() (mutate.Appendable, error) {
	raw, err := l.metadata(indexFile)
	if err != nil {
		return nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, invalid("parsing %s: %w", indexFile, err)
	}
	if len(index.Manifests) != 1 {
		return nil, invalid("invalid %s: %d entries, want 1", indexFile, len(index.Manifests))
	}
	only := index.Manifests[0]
	if !only.MediaType.IsImage() && !only.MediaType.IsIndex() {
		return nil, invalid("invalid entry in %s: media type %q, want an image or an image index", indexFile, only.MediaType)
	}
	if _, err := l.verified(only.Digest); err != nil {
		return nil, err
	}
	return lazyimage.Open(l, only)
}

// Manifest implements lazyimage.Store.
func (l *layout) Manifest(d v1.Descriptor) ([]byte, error) { return l.verified(d.Digest) }

// Config implements lazyimage.Store.
func (l *layout) Config(d v1.Descriptor) ([]byte, error) { return l.verified(d.Digest) }

// Layer implements lazyimage.Store.
func (l *layout) Layer(d v1.Descriptor) (io.ReadCloser, error) {
	content, _, err := l.open(blobName(d.Digest))
	return content, err
}

// metadata reads a file of at most maxMetadata bytes.
func (l *layout) metadata(name string) ([]byte, error) {
	content, size, err := l.open(name)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	if size > maxMetadata {
		return nil, invalid("%s exceeds the size limit: %d bytes, limit %d", name, size, maxMetadata)
	}
	return io.ReadAll(io.LimitReader(content, maxMetadata))
}

func blobName(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }

// verified reads a manifest or a config and compares its digest.
func (l *layout) verified(digest v1.Hash) ([]byte, error) {
	raw, err := l.metadata(blobName(digest))
	if err != nil {
		return nil, err
	}
	got, _, err := v1.SHA256(bytes.NewReader(raw))
	if err == nil && got != digest {
		err = invalid("corrupt blob %s: content has digest %s", blobName(digest), got)
	}
	return raw, err
}

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
