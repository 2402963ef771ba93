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
	"github.com/capi-installer/capi-installer/install/reason"
)

// releaseFile is the file next to images.json that names its release. It may be missing.
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

// images reads the release's images and applies the overrides.
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

// readImages reads images.json if it belongs to the program's release. Both files
// must come from the same directory, but an update of a mounted ConfigMap replaces
// a symbolic link and removes the previous directory, so it tries three times.
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
	if errors.Is(err, fs.ErrNotExist) {
		if flat, flatErr := flatImages(filepath.Dir(r.ImagesJSON)); flat != nil || flatErr != nil {
			return flat, flatErr
		}
	}
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
