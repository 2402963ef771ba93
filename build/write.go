// SPDX-License-Identifier: Apache-2.0

package build

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// WriteError says that something could not be written to Path.
type WriteError struct {
	Path string
	Err  error
}

func (e *WriteError) Error() string { return fmt.Sprintf("writing %s: %v", e.Path, e.Err) }
func (e *WriteError) Unwrap() error { return e.Err }

// WriteLayout writes image as an OCI image layout (oci-layout, index.json, blobs/)
// to dir. The layout is written beside dir and renamed, so dir is never half of it.
// A layout that is there is replaced; anything else that is not an empty directory
// is refused. reference, if not empty, becomes the image's name in the index
// (org.opencontainers.image.ref.name). Errors are of type *WriteError.
func WriteLayout(dir string, image v1.Image, reference string) error {
	if err := writeLayout(dir, image, reference); err != nil {
		return &WriteError{dir, err}
	}
	return nil
}

func writeLayout(dir string, image v1.Image, reference string) error {
	if err := replaceable(dir); err != nil {
		return err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	if err := fillLayout(filepath.Join(aside, "new"), image, reference); err != nil {
		return err
	}
	return swap(dir, filepath.Join(aside, "new"), filepath.Join(aside, "old"))
}

func fillLayout(dir string, image v1.Image, reference string) error {
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	var options []layout.Option
	if reference != "" {
		options = append(options, layout.WithAnnotations(map[string]string{ocispec.AnnotationRefName: reference}))
	}
	return path.AppendImage(image, options...)
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
// names. Errors are of type *WriteError.
func WriteFiles(dir string, files map[string][]byte) error {
	if err := writeFiles(dir, files); err != nil {
		return &WriteError{dir, err}
	}
	return nil
}

func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	aside, err := os.MkdirTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	names := sortedKeys(files)
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(aside, name), files[name], 0o644); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(aside, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
