// SPDX-License-Identifier: Apache-2.0

package version

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mountedData is the symbolic link to the current data in a directory where a ConfigMap is mounted. An update replaces it.
const mountedData = "..data"

// flatImages reads the image list of cluster-capi-operator and returns it as
// images.json. The list is a mounted ConfigMap whose keys are the keys of
// images.json and whose values are the references. It returns nil if the directory
// is not a mounted ConfigMap or has only the release version.
func flatImages(dir string) ([]byte, error) {
	folder, err := filepath.EvalSymlinks(filepath.Join(dir, mountedData))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the image list in %s: %w", dir, err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("reading the image list in %s: %w", dir, err)
	}
	images := map[string]string{}
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == releaseFile {
			continue
		}
		reference, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the image list in %s: %w", dir, err)
		}
		images[entry.Name()] = strings.TrimSpace(string(reference))
	}
	if len(images) == 0 {
		return nil, nil
	}
	return json.Marshal(images)
}
