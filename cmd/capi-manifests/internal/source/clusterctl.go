// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/extractor"
)

// ClusterctlReleases returns the paths of the clusterctl releases in a directory:
// "." if the directory is a release, "<provider label>/<version>" for each release of a
// repository, or "<version>" for each release of the directory of a provider in one. Other
// sources have none.
func ClusterctlReleases(source string) (found []string) {
	if kind, err := KindOf(source); err != nil || kind != Directory || kustomize.FileIn(source) != "" {
		return nil
	}
	for _, root := range append(extractor.Roots(), "metadata.json") {
		if _, err := os.Stat(filepath.Join(source, root)); err == nil {
			return nil // a bundle, or an image's root
		}
	}
	below, _ := fs.Glob(os.DirFS(source), "*/*") // the pattern is valid
	if absolute, err := filepath.Abs(source); err == nil && contract.TypeOfLabel(filepath.Base(absolute)) != "" {
		versions, _ := fs.Glob(os.DirFS(source), "v*") // the directory of a provider, with a release in each directory of a version
		below = append(versions, below...)
	}
	for _, dir := range append([]string{"."}, below...) {
		if holdsRelease(source, dir) {
			found = append(found, dir)
		}
		if dir == "." && len(found) > 0 {
			break // subdirectories belong to the release
		}
	}
	return found
}

// holdsRelease reports whether a directory has the path of a clusterctl release, or
// contains components.
func holdsRelease(source, dir string) bool {
	components, _ := fs.Glob(os.DirFS(filepath.Join(source, dir)), "*-components.yaml") // the pattern is valid
	return len(components) > 0 || repositoryPath(filepath.Join(source, dir)) != ""
}

// repositoryPath returns the suffix "<provider label>/<version>" of a path; empty
// if the path does not end in one.
func repositoryPath(dir string) string {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	label, number := filepath.Base(filepath.Dir(absolute)), filepath.Base(absolute)
	if _, err := utilversion.ParseSemantic(number); err != nil || contract.TypeOfLabel(label) == "" {
		return ""
	}
	return label + "/" + number
}

// ReadClusterctlRelease reads the YAML files of a release.
func ReadClusterctlRelease(source, dir string) (contract.Release, error) {
	release := contract.Release{Dir: repositoryPath(filepath.Join(source, dir)), Files: map[string][]byte{}}
	if release.Dir == "" && dir != "." {
		release.Dir = dir
	}
	entries, err := os.ReadDir(filepath.Join(source, dir))
	if err != nil {
		return release, err
	}
	for _, entry := range entries {
		file := filepath.Join(source, dir, entry.Name())
		if ending := path.Ext(file); ending != ".yaml" && ending != ".yml" {
			continue
		}
		info, err := os.Stat(file)
		if err != nil {
			return release, err
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if info.Size() > extractor.MaxManifests {
			return release, &InvalidError{fmt.Errorf("reading %s: file has %d bytes, more than the limit of %d", file, info.Size(), extractor.MaxManifests)}
		}
		if release.Files[entry.Name()], err = os.ReadFile(file); err != nil {
			return release, err
		}
	}
	return release, nil
}
