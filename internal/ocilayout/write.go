// SPDX-License-Identifier: Apache-2.0

package ocilayout

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ggcrlayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Write writes entry, a v1.Image or a v1.ImageIndex, as a layout to the directory dir. refName,
// if not empty, becomes the name of the entry in index.json (org.opencontainers.image.ref.name).
//
// The layout is written to a temporary directory next to dir and renamed, so dir never has a
// partial layout, and does not change if ctx ends before the layout is complete. An existing layout
// is replaced. Any other non-empty directory is rejected.
func Write(ctx context.Context, dir string, entry mutate.Appendable, refName string) error {
	if err := checkReplaceable(dir); err != nil {
		return err
	}
	return withTempDir(dir, func(temp string) error {
		fresh := filepath.Join(temp, "new")
		if err := errors.Join(fill(fresh, entry, refName), ctx.Err()); err != nil {
			return err
		}
		return replaceDir(dir, fresh, filepath.Join(temp, "old"))
	})
}

// WriteArchive writes entry as a tar archive of an OCI layout for podman, skopeo and docker. The
// archive is reproducible. An existing file is replaced when the archive is complete, unless ctx
// has ended.
func WriteArchive(ctx context.Context, file string, entry mutate.Appendable, refName string) error {
	return withTempDir(file, func(temp string) error {
		dir, archive := filepath.Join(temp, "layout"), filepath.Join(temp, "archive")
		err := fill(dir, entry, refName)
		if err == nil {
			err = archiveDir(archive, dir)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return os.Rename(archive, file)
	})
}

// withTempDir calls write with a temporary directory next to path, on the same file system, so that
// files can be renamed to path.
func withTempDir(path string, write func(temp string) error) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	return write(temp)
}

func fill(dir string, entry mutate.Appendable, refName string) error {
	path, err := ggcrlayout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	var options []ggcrlayout.Option
	if refName != "" {
		options = append(options, ggcrlayout.WithAnnotations(map[string]string{ocispec.AnnotationRefName: refName}))
	}
	switch entry := entry.(type) {
	case v1.ImageIndex:
		return path.AppendIndex(entry, options...)
	case v1.Image:
		return path.AppendImage(entry, options...)
	}
	return fmt.Errorf("%T is neither an image nor an image index", entry)
}

// checkReplaceable rejects a non-empty directory that is not a layout.
func checkReplaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return err
	case !IsDir(dir):
		return errors.New("directory is not empty and not an OCI layout; remove it or choose another directory")
	}
	return nil
}

// replaceDir renames dir to old and fresh to dir.
func replaceDir(dir, fresh, old string) error {
	err := os.Rename(dir, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	existed := err == nil
	if err := os.Rename(fresh, dir); err != nil {
		if existed {
			err = errors.Join(err, os.Rename(old, dir))
		}
		return err
	}
	return nil
}

// archiveDir writes the files below dir to a tar archive, sorted, owned by root and without
// timestamps, so that it is reproducible.
func archiveDir(file, dir string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return archiveEntry(w, dir, path, entry)
	})
	return errors.Join(err, w.Close(), out.Close())
}

func archiveEntry(w *tar.Writer, dir, path string, entry fs.DirEntry) error {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	if entry.IsDir() {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: filepath.ToSlash(name) + "/", Mode: 0o755})
	}
	content, err := os.Open(path)
	if err != nil {
		return err
	}
	defer content.Close()
	info, err := content.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return err
}
