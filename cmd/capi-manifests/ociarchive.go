// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// What is read of an OCI archive: so many entries, and so many bytes of its index,
// of a manifest and of a config.
const (
	archiveEntries  = 10_000
	archiveMetadata = 4 << 20
)

// errNoOCIArchive says that a file is another kind of archive, or none.
var errNoOCIArchive = errors.New("it has no index.json of an OCI layout")

// damaged is an error about what an archive holds.
func damaged(format string, arguments ...any) error {
	return &invalidError{fmt.Errorf(format, arguments...)}
}

// ociArchive is a tar archive of an OCI layout
// (https://github.com/opencontainers/image-spec/blob/main/image-layout.md). Nothing of it is unpacked: it says
// where in the file each entry is.
type ociArchive struct {
	file    string
	entries map[string]extent
}

// extent is where an entry's content is in the file.
type extent struct{ offset, size int64 }

// openOCIArchive finds the entries of an archive. The error is errNoOCIArchive if it is of another kind.
func openOCIArchive(file string) (*ociArchive, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a := &ociArchive{file: file, entries: map[string]extent{}}
	archive := tar.NewReader(f)
	for n := 0; ; n++ {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return a, a.check()
		case err != nil && n == 0:
			return nil, errNoOCIArchive
		case err != nil:
			return nil, damaged("reading the archive: %w", err)
		case n >= archiveEntries:
			return nil, damaged("the archive has more than %d entries", archiveEntries)
		case header.Typeflag != tar.TypeReg:
			continue
		}
		offset, err := f.Seek(0, io.SeekCurrent) // the reader reads no further than the header
		if err != nil {
			return nil, err
		}
		entry := path.Clean(header.Name)
		if _, twice := a.entries[entry]; twice {
			return nil, damaged("the archive has two entries %q", entry)
		}
		a.entries[entry] = extent{offset, header.Size}
	}
}

func (a *ociArchive) check() error {
	if _, found := a.entries["index.json"]; !found {
		return errNoOCIArchive
	}
	return nil
}

// open opens an entry.
func (a *ociArchive) open(entry string) (io.ReadCloser, error) {
	at, found := a.entries[entry]
	if !found {
		return nil, damaged("the archive has no %s", entry)
	}
	f, err := os.Open(a.file)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, at.offset, at.size), f}, nil
}

// small reads an entry that is not large.
func (a *ociArchive) small(entry string) ([]byte, error) {
	if size := a.entries[entry].size; size > archiveMetadata {
		return nil, damaged("%s has %d bytes, more than %d", entry, size, archiveMetadata)
	}
	body, err := a.open(entry)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

func blobEntry(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }

// verified reads a small blob that is what its digest says.
func (a *ociArchive) verified(digest v1.Hash) ([]byte, error) {
	raw, err := a.small(blobEntry(digest))
	if err != nil {
		return nil, err
	}
	return raw, sameDigest(digest, bytes.NewReader(raw))
}

func sameDigest(want v1.Hash, content io.Reader) error {
	got, _, err := v1.SHA256(content)
	if err == nil && got != want {
		err = damaged("the archive's %s has the digest %s", blobEntry(want), got)
	}
	return err
}

// archivedImage implements partial.CompressedImageCore.
type archivedImage struct {
	archive    *ociArchive
	descriptor v1.Descriptor
}

func (i *archivedImage) MediaType() (types.MediaType, error) { return i.descriptor.MediaType, nil }

func (i *archivedImage) RawManifest() ([]byte, error) { return i.archive.verified(i.descriptor.Digest) }

func (i *archivedImage) RawConfigFile() ([]byte, error) {
	manifest, err := partial.Manifest(i)
	if err != nil {
		return nil, err
	}
	return i.archive.verified(manifest.Config.Digest)
}

func (i *archivedImage) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	manifest, err := partial.Manifest(i)
	if err != nil {
		return nil, err
	}
	for _, layer := range append(manifest.Layers, manifest.Config) {
		if layer.Digest == digest {
			return &archivedLayer{i.archive, layer}, nil
		}
	}
	return nil, damaged("the image has no layer %s", digest)
}

// archivedLayer implements partial.CompressedLayer.
type archivedLayer struct {
	archive    *ociArchive
	descriptor v1.Descriptor
}

func (l *archivedLayer) Digest() (v1.Hash, error)            { return l.descriptor.Digest, nil }
func (l *archivedLayer) Size() (int64, error)                { return l.descriptor.Size, nil }
func (l *archivedLayer) MediaType() (types.MediaType, error) { return l.descriptor.MediaType, nil }
func (l *archivedLayer) Descriptor() (*v1.Descriptor, error) { return &l.descriptor, nil } //nolint:unparam // what go-containerregistry looks for returns an error

// Compressed returns the layer as it is in the archive, after all of it was verified.
func (l *archivedLayer) Compressed() (io.ReadCloser, error) {
	entry := blobEntry(l.descriptor.Digest)
	body, err := l.archive.open(entry)
	if err != nil {
		return nil, err
	}
	err = sameDigest(l.descriptor.Digest, body)
	body.Close()
	if err != nil {
		return nil, err
	}
	return l.archive.open(entry)
}
