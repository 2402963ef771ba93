// SPDX-License-Identifier: Apache-2.0

package build

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// WriteError says that something could not be written to Path.
type WriteError struct {
	Path string
	Err  error
}

func (e *WriteError) Error() string { return fmt.Sprintf("writing %s: %v", e.Path, e.Err) }
func (e *WriteError) Unwrap() error { return e.Err }

// WriteLayout writes image, a v1.Image or a v1.ImageIndex, as an OCI image layout (oci-layout, index.json, blobs/)
// to dir. The layout is written beside dir and renamed, so dir is never half of it,
// and when ctx ends before it is whole, nothing has changed.
// A layout that is there is replaced; anything else that is not an empty directory
// is refused. reference, if not empty, becomes the image's name in the index
// (org.opencontainers.image.ref.name). Errors are of type *WriteError.
func WriteLayout(ctx context.Context, dir string, image mutate.Appendable, reference string) error {
	if err := writeLayout(ctx, dir, image, reference); err != nil {
		return &WriteError{dir, err}
	}
	return nil
}

func writeLayout(ctx context.Context, dir string, image mutate.Appendable, reference string) error {
	if err := replaceable(dir); err != nil {
		return err
	}
	return beside(dir, func(aside string) error {
		fresh := filepath.Join(aside, "new")
		if err := errors.Join(fillLayout(fresh, image, reference), ctx.Err()); err != nil {
			return err
		}
		return swap(dir, fresh, filepath.Join(aside, "old"))
	})
}

// beside calls write with a new directory in the directory of path, so that what
// is made there can be renamed to path, and removes it afterwards.
func beside(path string, write func(aside string) error) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	return write(aside)
}

func fillLayout(dir string, image mutate.Appendable, reference string) error {
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	var options []layout.Option
	if reference != "" {
		options = append(options, layout.WithAnnotations(map[string]string{ocispec.AnnotationRefName: reference}))
	}
	if index, is := image.(v1.ImageIndex); is {
		return path.AppendIndex(index, options...)
	}
	if image, is := image.(v1.Image); is {
		return path.AppendImage(image, options...)
	}
	return fmt.Errorf("%T is neither an image nor an index", image)
}

// WriteArchive writes image as a tar archive of the OCI image layout that WriteLayout writes, which
// podman, skopeo and docker load. The archive has the same bytes each time. A file that is there is replaced, when the
// archive is whole and unless ctx has ended. Errors are of type *WriteError.
func WriteArchive(ctx context.Context, file string, image mutate.Appendable, reference string) error {
	err := beside(file, func(aside string) error {
		dir, archive := filepath.Join(aside, "layout"), filepath.Join(aside, "archive")
		err := fillLayout(dir, image, reference)
		if err == nil {
			err = archiveDir(archive, dir)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		return os.Rename(archive, file)
	})
	if err != nil {
		return &WriteError{file, err}
	}
	return nil
}

// archiveDir writes the files below dir into a tar archive: sorted, owned by root, without a time.
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

// replaceable refuses what WriteLayout must not replace.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
		return errors.New("the directory is not empty and not an OCI layout; it is not replaced")
	}
	return nil
}

// swap moves fresh to dir and what was there to old.
func swap(dir, fresh, old string) error {
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

// WriteFiles writes files to dir, which it makes. Each file is written beside its
// place first, and no file takes its place before all are written. Names are base
// names. When ctx has ended by then, nothing has changed. Errors are of type *WriteError.
func WriteFiles(ctx context.Context, dir string, files map[string][]byte) error {
	return WriteDirs(ctx, map[string]map[string][]byte{dir: files})
}

// WriteDirs is WriteFiles for several directories, by their paths: no file takes its
// place in any of them before all are written in all of them.
func WriteDirs(ctx context.Context, dirs map[string]map[string][]byte) (err error) {
	var prepared []preparedFiles
	defer func() {
		for _, p := range slices.Backward(prepared) {
			p.end(err != nil)
		}
	}()
	for _, dir := range sortedKeys(dirs) {
		p, err := prepare(ctx, dir, dirs[dir])
		prepared = append(prepared, p)
		if err != nil {
			return &WriteError{dir, err}
		}
	}
	if err := ctx.Err(); err != nil {
		return &WriteError{join(sortedKeys(dirs)), err}
	}
	for _, p := range prepared {
		if err := p.place(); err != nil {
			return &WriteError{p.dir, err}
		}
	}
	return nil
}

// preparedFiles are files that were written to aside, to be renamed into dir.
type preparedFiles struct {
	dir, aside string
	names      []string
	// made are the directories that were made for it, the deepest first.
	made []string
}

func prepare(ctx context.Context, dir string, files map[string][]byte) (p preparedFiles, err error) {
	if err := ctx.Err(); err != nil {
		return p, err
	}
	p = preparedFiles{dir: dir, names: sortedKeys(files), made: missingDirs(dir)}
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

// missingDirs are a directory and those above it that are not there, the deepest first.
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

// end removes what is not needed any more; after a failure also the directories that were made, if nothing is in them.
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
