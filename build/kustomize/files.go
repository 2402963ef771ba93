// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// textFiles is a file system that rejects YAML in other encodings than UTF-8: of a file in UTF-16, kustomize reads only
// the first document. It keeps the errors, because kustomize replaces the errors of a file system by its own.
type textFiles struct {
	filesys.FileSystem
	// rejected are the errors of rejected files.
	rejected []error
	// suspects are the errors of other files, which only generators can read.
	suspects []error
}

// explain returns the result of a run of kustomize, or the files because of which it failed.
func (f *textFiles) explain(err error) error {
	switch {
	case len(f.rejected) > 0:
		return errors.Join(f.rejected...)
	case err != nil && len(f.suspects) > 0:
		return errors.Join(append([]error{err}, f.suspects...)...)
	}
	return err
}

func (f *textFiles) ReadFile(file string) ([]byte, error) {
	content, err := f.FileSystem.ReadFile(file)
	if err != nil {
		return nil, err
	}
	wrong := yamldoc.CheckUTF8(content)
	if wrong == nil {
		return content, nil
	}
	wrong = &fs.PathError{Op: "read", Path: file, Err: wrong}
	if !isYAML(file, content) {
		f.suspects = append(f.suspects, wrong)
		return content, nil
	}
	f.rejected = append(f.rejected, wrong)
	return nil, wrong
}

// isYAML reports whether a file has an extension of YAML, or several documents in UTF-16. Generators read other files, in
// any encoding.
func isYAML(file string, content []byte) bool {
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) {
		return true
	}
	text, err := yamldoc.ToUTF8(content)
	return err == nil && len(yamldoc.SplitNonEmpty(text)) > 1
}
