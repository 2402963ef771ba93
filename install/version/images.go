// SPDX-License-Identifier: Apache-2.0

package version

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/status"
)

// releaseFile lies beside images.json, where it says which release that is of. It may be missing.
const releaseFile = "release-version"

// StaleError says that images.json is of another release than the program: a
// mount is behind, or the program is.
type StaleError struct {
	// Path is that of images.json.
	Path string
	// Is is the release that it is of, Want that of the program.
	Is, Want string
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("%s is of release %s, as %s beside it says, and this is the installer of release %s", e.Path, e.Is, releaseFile, e.Want)
}

func imagesReason(err error) status.Reason {
	if errors.As(err, new(*StaleError)) {
		return status.ReleaseMismatch
	}
	return status.ImagesInvalid
}

// images reads the release's images and puts the overrides in their place.
func (r *Reconciler) images(overrides []v1alpha1.ImageOverride) (imagesjson.Images, error) {
	data, err := r.readImages()
	if err != nil {
		return nil, err
	}
	images, err := imagesjson.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading images.json: %w", err)
	}
	images, err = images.Override(overrides)
	if err != nil {
		return nil, fmt.Errorf("applying spec.imageOverrides: %w", err)
	}
	return images, nil
}

// readImages reads images.json, if it is of the program's release. Both files are
// read out of one directory: a mounted ConfigMap changes by a symbolic link to
// another one, and the directory before goes away.
func (r *Reconciler) readImages() (data []byte, err error) {
	for range 3 {
		data, err = r.readImagesOnce()
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return data, err
}

func (r *Reconciler) readImagesOnce() ([]byte, error) {
	path, err := filepath.EvalSymlinks(r.ImagesJSON)
	if err != nil {
		return nil, fmt.Errorf("reading images.json: %w", err)
	}
	release, err := os.ReadFile(filepath.Join(filepath.Dir(path), releaseFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the release of images.json: %w", err)
	}
	if is := strings.TrimSpace(string(release)); err == nil && is != r.Release {
		return nil, &StaleError{Path: r.ImagesJSON, Is: is, Want: r.Release}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading images.json: %w", err)
	}
	return data, nil
}
