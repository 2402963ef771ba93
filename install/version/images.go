// SPDX-License-Identifier: Apache-2.0

package version

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/reason"
)

// releaseFile is the file next to images.json that names its release. It may be missing if the program has a release of its own.
const releaseFile = "release-version"

// StaleError reports that images.json belongs to another release than the program:
// either the mount or the program is outdated.
type StaleError struct {
	// Path is the path of images.json.
	Path string
	// Is is the release of images.json, Want the release of the program.
	Is, Want string
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%s belongs to release %s (from %s in the same directory), want release %s of this installer", e.Path, e.Is, releaseFile, e.Want)
}

func imagesReason(err error) reason.Reason {
	if errors.As(err, new(*StaleError)) {
		return reason.ReleaseMismatch
	}
	return reason.ImagesInvalid
}

// releaseFiles are the files of a release: images.json and the release-version next to it.
type releaseFiles struct {
	// version is the release of images.json; the program's without a file release-version.
	version string
	// release is the running release: the program's, or else version.
	release string
	images  []byte
	// err is the error of reading them.
	err error
}

// releaseSource reads the files of the release.
type releaseSource struct {
	// path is the path of images.json, and release the release of the program; empty if the files name it.
	path, release string
}

// read reads the files of the release. Both must come from the same directory, but an
// update of a mounted ConfigMap replaces a symbolic link and removes the previous
// directory, so it tries three times.
func (s releaseSource) read() (files releaseFiles) {
	for range 3 {
		files, files.err = s.readOnce()
		if !errors.Is(files.err, fs.ErrNotExist) {
			break
		}
	}
	files.release = cmp.Or(s.release, files.version)
	return files
}

func (s releaseSource) readOnce() (releaseFiles, error) {
	path, err := filepath.EvalSymlinks(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		if flat, flatErr := flatImages(filepath.Dir(s.path)); flat != nil || flatErr != nil {
			return releaseFiles{version: s.release, images: flat}, flatErr
		}
	}
	if err != nil {
		return releaseFiles{}, fmt.Errorf("reading images.json: %w", err)
	}
	release, err := os.ReadFile(filepath.Join(filepath.Dir(path), releaseFile))
	if errors.Is(err, fs.ErrNotExist) {
		release, err = []byte(s.release), nil
	}
	if err != nil {
		return releaseFiles{}, fmt.Errorf("reading the release of images.json: %w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return releaseFiles{}, fmt.Errorf("reading images.json: %w", err)
	}
	return releaseFiles{version: strings.TrimSpace(string(release)), images: data}, nil
}

// parse returns the images of the running release with the overrides. path is the path of images.json.
func (files releaseFiles) parse(path string, overrides []v1alpha1.ImageOverride) (imagesjson.Images, error) {
	if files.err != nil {
		return nil, files.err
	}
	if files.release == "" {
		return nil, fmt.Errorf("the file %s next to %s must name the release", releaseFile, path)
	}
	if files.version != files.release {
		return nil, &StaleError{Path: path, Is: files.version, Want: files.release}
	}
	images, err := imagesjson.Parse(files.images)
	if err != nil {
		return nil, fmt.Errorf("reading images.json: %w", err)
	}
	images, err = images.Override(overrides)
	if err != nil {
		return nil, fmt.Errorf("applying spec.imageOverrides: %w", err)
	}
	return images, nil
}
